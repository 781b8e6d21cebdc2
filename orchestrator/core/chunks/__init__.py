"""Rows that travel together as one job of the service: which, what is sent and comes back, and what becomes of each."""
