"""`orchestrator runs resend`: what is at the service is gone, and is to be sent anew."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.framework import flags
from orchestrator.cli.framework.flags import also
from orchestrator.cli.framework.runner import AtLedger, carry_out_at_ledger
from orchestrator.cli.framework.service_access import Yes, confirm
from orchestrator.cli.output import streams
from orchestrator.cli.runs.control import Json, told
from orchestrator.core.text.wording import counted
from orchestrator.errors import UsageError
from orchestrator.settings import run_flags

Outstanding = Annotated[
    bool, typer.Option("--outstanding", metavar="", help="What the service has accepted and not finished.")
]


def add_resend(runs: typer.Typer) -> None:
    """Registers it."""

    @runs.command()
    @also(carry_out_at_ledger, **flags.flags_of(run_flags.LEDGER, run_flags.CONFIG), json=Json)
    def resend(name: flags.RunName, outstanding: Outstanding = False, yes: Yes = False) -> AtLedger:
        """Send jobs anew that the service has no more, after a purge or where an endpoint was made again.

        Example: orchestrator runs resend prompts --outstanding
        """
        if not outstanding:
            raise UsageError("say what is to be sent anew: --outstanding")
        return partial(_resend, name, yes)


async def _resend(name: str, yes: bool, ledger: Path, as_json: bool) -> int:
    from orchestrator.api.inspect.status import show
    from orchestrator.api.runs.commands import resend

    run = await show(ledger, name)
    if not (number := run.jobs["outstanding"]):
        if as_json:
            streams.put_json(run)
        streams.say(f"{run.run} has no outstanding jobs; nothing to resend")
        return 0
    each = (
        "it is paid twice if the service still has it"
        if number == 1
        else "each that the service still has is paid twice"
    )
    confirm(f"send {counted(number, 'outstanding job')} of {run.run} anew; {each}?", yes=yes)
    return told(await resend(ledger, run.run), "to send them anew", as_json=as_json)
