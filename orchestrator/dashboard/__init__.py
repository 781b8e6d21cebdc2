"""The dashboard: what is in a ledger, and what can be asked of it, in a browser. It decides nothing."""
