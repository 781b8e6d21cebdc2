"""`emulate` as asked for."""
