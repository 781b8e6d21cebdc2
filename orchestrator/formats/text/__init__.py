"""Packed files, JSON as text, JSON Schema."""
