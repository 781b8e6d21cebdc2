"""A ledger on a server as a whole: whether it is there, and which one it is."""
