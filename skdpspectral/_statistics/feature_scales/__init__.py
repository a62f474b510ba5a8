"""Private places and scales of features of which no bounds are known."""
