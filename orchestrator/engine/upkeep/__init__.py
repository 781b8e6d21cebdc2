"""What keeps the ledger, the service and this process in step."""
