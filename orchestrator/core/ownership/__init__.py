"""Which of several processes may work on a ledger: how long an owner trusts its lease, and when another one bids."""
