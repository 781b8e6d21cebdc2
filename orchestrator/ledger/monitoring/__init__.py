"""What monitoring is told of a ledger: sums over all of it, and what traces are made of."""
