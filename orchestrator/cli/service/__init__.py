"""`api`, `emulate`, `doctor`, `ledger`."""
