"""The live view of a run from any process, beside whoever serves it; it asks for nothing, and changes nothing."""

import anyio

from orchestrator.api.foreground.summary import snapshot_of
from orchestrator.api.hosting.follower import FollowedRun, followed_run
from orchestrator.api.runs.process_commands import beside
from orchestrator.api.runs.run_lookup import run_named
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.console import Console
from orchestrator.errors import leading
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.units import SECOND_US
from orchestrator.views.status import Snapshot

SILENT_ADVICE = "what is shown is what it said then"


async def watch(
    ledger: LedgerAddress,
    name: str | None,
    console: Console,
    dependencies: Dependencies | None = None,
    *,
    stop: anyio.Event,
) -> Snapshot:
    """Has `console` show the run `name`, or the only one, until each of its jobs has its outcome, or `stop` is set;
    returns how it stood then.

    Raises `UsageError` where there is no such run, and `StoppedError` where it is renamed or deleted meanwhile.
    """
    given = dependencies or Dependencies()
    began_at = given.clock.now()
    async with beside(ledger, given) as opened:
        run = await run_named(opened, name, not_accepted=True)
        followed = await followed_run(opened, run, console, silent=SILENT_ADVICE)

        def look() -> Snapshot:
            return snapshot_of(followed, rows_read=None, wall_s=(given.clock.now() - began_at) / SECOND_US)

        async def nudge() -> None:
            await stop.wait()
            followed.progress.nudge()

        await followed.look()
        if followed.holder is None and followed.progress.unfinished:
            console.info(f"nobody works on {ledger}; {run.name} is shown as it was left")
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(nudge)
                group.start_soon(followed.serve)
                group.start_soon(console.follow, look)
                await followed.progress.until(lambda: stop.is_set() or _has_ended(followed))
                group.cancel_scope.cancel()
        except BaseExceptionGroup as errors:
            raise leading(errors) from errors
        return look()


def _has_ended(followed: FollowedRun) -> bool:
    """Whether each job has its outcome; a run whose input is being read for the first time has none yet."""
    return followed.progress.unfinished == 0 and (followed.run.accepted or followed.progress.total > 0)
