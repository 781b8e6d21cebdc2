"""Bytes to rows and outcomes to bytes, streaming both ways: no database, no network, no clock."""
