"""All that a ledger holds goes to another one, which goes on in its place."""
