"""The moving parts. None of them knows another: they meet in the ledger."""
