"""Messages between machines, without their content."""
