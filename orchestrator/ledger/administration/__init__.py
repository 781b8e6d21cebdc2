"""What an administrator of a server of PostgreSQL asks of a ledger there, and tells the server. No driver is loaded."""
