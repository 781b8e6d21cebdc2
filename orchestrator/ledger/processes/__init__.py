"""Which of several processes owns a ledger on a server, and which takes in for a run. Nothing of it concerns a file."""
