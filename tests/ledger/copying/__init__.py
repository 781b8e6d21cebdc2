"""One ledger copied into another."""
