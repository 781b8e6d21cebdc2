"""What the engines of one process share: its ledger, its ways out and in, and what it says of itself."""
