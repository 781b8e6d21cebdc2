"""The tables, and rows to values and back."""
