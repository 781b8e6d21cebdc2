"""Changes to runs, limits, brakes and the ledger file beside a process."""
