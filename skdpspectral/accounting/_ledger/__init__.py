"""The accountant: its files, servers, locks and entries."""
