"""Bytes to rows, one reader for each format, and the checks of a row."""
