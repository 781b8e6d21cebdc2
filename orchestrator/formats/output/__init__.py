"""Outcomes to bytes, one writer for each format, read back for `verify`, and files that appear whole."""
