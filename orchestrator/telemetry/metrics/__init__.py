"""The metrics: which there are, what the ledger says of each, and how they are written for Prometheus."""
