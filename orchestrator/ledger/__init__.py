"""The ledger: the only SQL in the program, and the only place where its parts meet."""

from orchestrator.ledger.sqlite import lazy_orm  # noqa: F401  before anything imports SQLAlchemy

# isort: split
from orchestrator.ledger.holder_text import who_and_since
from orchestrator.ledger.jobs.claims import Claim
from orchestrator.ledger.ledger import Ledger
from orchestrator.ledger.locks import (
    accept_lost_commits,
    holder_of,
    holding_intake,
    holding_ledger,
    is_locked_here,
    refuse_abandoned,
    sharing_ledger,
)
from orchestrator.ledger.opening import (
    command_ledger,
    is_made,
    is_ready,
    no_ledger,
    open_ledger,
    read_ledger,
    refuse_other_webhook_key,
    webhook_key_of,
)
from orchestrator.ledger.runs.intakes import IntakeRight
from orchestrator.ledger.sites.sent_marks import Boot, this_boot
from orchestrator.ledger.sites.site import LedgerPlace, Owners
from orchestrator.ledger.sqlite.database import Connect
from orchestrator.ledger.sqlite.file_locks import (
    dispatcher_lock,
    holder,
    intake_lock,
    lock_if_free,
    locked_since,
    network_file_system,
)
from orchestrator.ledger.sqlite.ledger_files import LedgerFiles
from orchestrator.settings.addresses.ledger_address import LedgerAddress, may_exist

__all__ = [
    "Boot",
    "Claim",
    "Connect",
    "IntakeRight",
    "Ledger",
    "LedgerAddress",
    "LedgerFiles",
    "LedgerPlace",
    "Owners",
    "accept_lost_commits",
    "command_ledger",
    "dispatcher_lock",
    "holder",
    "holder_of",
    "holding_intake",
    "holding_ledger",
    "intake_lock",
    "is_locked_here",
    "is_made",
    "is_ready",
    "lock_if_free",
    "locked_since",
    "may_exist",
    "network_file_system",
    "no_ledger",
    "open_ledger",
    "read_ledger",
    "refuse_abandoned",
    "refuse_other_webhook_key",
    "sharing_ledger",
    "this_boot",
    "webhook_key_of",
    "who_and_since",
]
