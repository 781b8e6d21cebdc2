"""The commands that speak to the service without a run, or stand in for it, and those about the ledger as a file."""

from typing import Final

from orchestrator.cli.framework.command_groups import Members
from orchestrator.cli.service import api_commands, emulate, init, ledger

BEGIN: Final[Members] = {"init": init.init}
TRY_AND_REHEARSE: Final[Members] = {"emulate": emulate.emulate, "api": api_commands.api}
UPKEEP: Final[Members] = {"ledger": ledger.commands, "stop": ledger.stop}
