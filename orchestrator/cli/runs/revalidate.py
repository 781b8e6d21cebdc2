"""`orchestrator runs recheck`: what was collected is judged by what the run takes for a result now."""

from typing import Annotated

from orchestrator.api.runs.keyword_options import VALIDATORS
from orchestrator.api.runs.next_command import next_command
from orchestrator.cli.framework import flags
from orchestrator.cli.framework.runner import at_ledger
from orchestrator.cli.framework.service_access import Yes, confirm
from orchestrator.cli.output import streams
from orchestrator.cli.runs.control import JSON
from orchestrator.core.text.wording import counted
from orchestrator.settings import command_flags
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.sources import Choices

DryRun = Annotated[bool, flags.option(command_flags.DRY_RUN, "Only say how many jobs it would change.")]


@at_ledger(JSON, *VALIDATORS)
async def recheck(
    name: flags.RunName,
    dry_run: DryRun = False,
    yes: Yes = False,
    *,
    choices: Choices,
    ledger: LedgerAddress,
    as_json: bool,
) -> None:
    """Judge a run's outputs anew: by other validators, or by its own as their files are now.

    Example: orchestrator runs recheck prompts --schema caption.schema.json --dry-run
    """
    from orchestrator.api.admin.revalidate import recheck
    from orchestrator.api.inspect.status import show

    changes = {each.name: choices[each] for each in VALIDATORS if choices.is_from_flag(each)}
    found = await recheck(ledger, name, changes, dry_run=True)
    streams.say(f"{found.run}: {found.outcome}")
    if not dry_run:
        changed = found.rejected + found.accepted
        paid = f", {found.again:,} of which are paid again" if found.again else ""
        confirm(f"change {counted(changed, 'job')} of {found.run}{paid}?", yes=yes or not changed)
        found = await recheck(ledger, found.run, changes)
        streams.say(f"{found.run}: done: {found.outcome}" if found.is_done else f"{found.run}: {found.outcome}")
        if found.again:
            run = await show(ledger, found.run)
            command = next_command("resume", found.run, ledger, choices.configuration, service_url=run.service_url)
            streams.say(f"unless some process works on the ledger, go on with: {command}")
    if as_json:
        streams.put_json(found)
