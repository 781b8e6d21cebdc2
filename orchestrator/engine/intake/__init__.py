"""Rows into the ledger: a whole input, or as they come."""
