"""Files made of outputs that are in a ledger already: of runs that were not told to, or where a disk was full."""

from collections.abc import Sequence

import msgspec

from orchestrator.api.runs.process_commands import beside
from orchestrator.api.runs.run_lookup import run_named
from orchestrator.api.runs.settings_check import check_saves
from orchestrator.core.outputs.save_rules import SaveRule, check_apart
from orchestrator.engine.collecting.output_saver import OutputSaver, SavedAgain
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.console import SilentConsole
from orchestrator.errors import StorageError, UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.outputs.save_settings import SAVE
from orchestrator.stores.object_url import asked_about


async def save_outputs(
    ledger: LedgerAddress, name: str | None, rules: Sequence[SaveRule], dependencies: Dependencies | None = None
) -> SavedAgain:
    """Makes files of the members that `rules` name of the results of the run `name`, or of the only one, as far as they
    are none yet. In the ledger what tells of the files takes their place, and the run goes by these rules from now on.

    Raises `UsageError` where there is no such run or the rules cannot be kept, and `StorageError` where the disk takes
    no more: what was saved by then stays, and the same again goes on.
    """
    given = dependencies or Dependencies()
    async with beside(ledger, given) as opened:
        return await made_of(opened, await run_named(opened, name), rules, given)


async def made_of(ledger: Ledger, run: Run, rules: Sequence[SaveRule], dependencies: Dependencies) -> SavedAgain:
    """The same of a ledger that is open."""
    paths = {rule.path for rule in rules}
    together = (*(rule for rule in run.settings.save if rule.path not in paths), *rules)
    await asked_about(lambda: check_saves(rules), *(rule.folder for rule in rules))
    try:
        check_apart(together)
    except ValueError as error:
        raise UsageError(f"{SAVE}: {error}") from None
    settings = msgspec.structs.replace(run.settings, save=together)
    settings = await ledger.runs.configure(run.id, settings, before=run.settings)
    saver = OutputSaver(ledger, {run.id: settings}, SilentConsole().warn, dependencies.fetch_link)
    found = await saver.save_all(run.id)
    if found.disk_fault is not None:
        raise StorageError(f"{found.disk_fault}; free space, then give the command again")
    return found
