"""The two streams, tables, live display, words for figures."""
