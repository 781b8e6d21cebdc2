"""The ledger: the only SQL in the program, and the only place where its parts meet."""

from orchestrator.ledger.ledger import Claim, Ledger, command_ledger, no_ledger, open_ledger, read_ledger

__all__ = ["Claim", "Ledger", "command_ledger", "no_ledger", "open_ledger", "read_ledger"]
