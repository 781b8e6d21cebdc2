"""What is PostgreSQL's own. Nothing of it, and no driver, is loaded before a ledger on a server is opened."""
