"""The ledger: the only SQL in the program, and the only place where its parts meet."""

from orchestrator.ledger.sqlite import orm_later  # noqa: F401  before anything imports SQLAlchemy

# isort: split
from orchestrator.ledger.claims import Claim
from orchestrator.ledger.ledger import Ledger
from orchestrator.ledger.sqlite.database import Connect
from orchestrator.ledger.sqlite.key import webhook_key
from orchestrator.ledger.sqlite.lock import (
    INTAKE_LOCK,
    dispatcher_lock,
    held_since,
    holder,
    intake_lock,
    is_held_here,
    network_file_system,
    refuse_abandoned,
)
from orchestrator.ledger.sqlite.marks import Boot, this_boot
from orchestrator.ledger.sqlite.opening import command_ledger, is_made, is_ready, no_ledger, open_ledger, read_ledger

__all__ = [
    "INTAKE_LOCK",
    "Boot",
    "Claim",
    "Connect",
    "Ledger",
    "command_ledger",
    "dispatcher_lock",
    "held_since",
    "holder",
    "intake_lock",
    "is_held_here",
    "is_made",
    "is_ready",
    "network_file_system",
    "no_ledger",
    "open_ledger",
    "read_ledger",
    "refuse_abandoned",
    "this_boot",
    "webhook_key",
]
