"""A ledger where it lies, in a file or on a server: how it is found, made, held by one process, and lost."""
