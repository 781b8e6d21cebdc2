"""Rows in, results and failures out: files, pages, queries, verify."""
