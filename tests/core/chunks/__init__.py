"""Rows that travel together."""
