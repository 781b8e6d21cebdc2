"""Where a ledger is, and what belongs to it on this machine."""
