"""What people and processes ask of whoever works on the ledger: rows, each acknowledged once."""
