"""The commands that speak to the service without a run, or stand in for it, and those about the ledger as a file."""

from orchestrator.cli.service.commands import add_api
from orchestrator.cli.service.emulate import add_emulate
from orchestrator.cli.service.init import add_init
from orchestrator.cli.service.ledger import add_ledger
from orchestrator.cli.service.stop import add_stop

BEGIN = (add_init,)
TRY_AND_REHEARSE = (add_emulate, add_api)
UPKEEP = (add_ledger, add_stop)
