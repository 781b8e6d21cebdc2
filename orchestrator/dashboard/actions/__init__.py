"""What pages can ask for: forms, confirmations, and what came of them."""
