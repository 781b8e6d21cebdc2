"""All runs at once, for those who look: one question of each kind, however many runs there are."""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from orchestrator.core.gates.gates import Hold
from orchestrator.core.polling.endpoint_estimates import Learned
from orchestrator.ledger.commands.command_repository import Commands
from orchestrator.ledger.commands.command_types import Command
from orchestrator.ledger.jobs.brake_state import Brakes
from orchestrator.ledger.jobs.margins import Margins, MarginsOfRuns
from orchestrator.ledger.runs.endpoints import LearnedOfEndpoints
from orchestrator.ledger.runs.heartbeats import Heartbeat, Heartbeats
from orchestrator.ledger.runs.runs import Run, Runs
from orchestrator.ledger.transactions.repository import Access
from orchestrator.ledger.transactions.run_controls import RunControls


class RunSummaries(msgspec.Struct, frozen=True, kw_only=True):
    """What the ledger says of its runs, by run, in one view. Of some there may be nothing to say."""

    runs: Sequence[Run]
    """Oldest first."""

    counts: Mapping[int, Mapping[str, int]]
    margins: Mapping[int, Margins]
    controls: Mapping[int, RunControls]
    heartbeats: Sequence[Heartbeat]
    learned: Mapping[int, Learned]
    """By endpoint, not by run."""

    brakes: Mapping[int, Hold]
    """What holds them, as whoever worked on them last has found."""

    pending: Mapping[int, Sequence[Command]]
    """What people have asked and nobody has done, in the order in which they asked."""

    def controls_of(self, run: Run) -> RunControls:
        """What people have asked of it."""
        return self.controls.get(run.id, RunControls())

    def learned_of(self, run: Run) -> Learned:
        """What was learned of its endpoint."""
        return self.learned.get(run.endpoint_id, Learned())

    def retention_us(self, run: Run) -> int:
        """For how long its results may be counted on, as far as anybody found out."""
        return self.learned_of(run).retention_us(run.settings.retention_us)


async def overview(access: Access, *, among: Collection[int] | None = None) -> RunSummaries:
    """Every run, or those of these numbers."""
    async with access.reading() as connection:
        view = access.within(connection)
        return RunSummaries(
            runs=await Runs(view).all(among),
            counts=await Runs(view).counts_by_run(among),
            margins=await MarginsOfRuns(view).by_run(among),
            controls={run: asked.controls for run, asked in (await Runs(view).asked()).items()},
            heartbeats=await Heartbeats(view).all(),
            learned=await LearnedOfEndpoints(view).all(),
            brakes=await Brakes(view).holds(),
            pending=_by_run(await Commands(view).pending()),
        )


def _by_run(asked: Sequence[Command]) -> Mapping[int, Sequence[Command]]:
    found: dict[int, list[Command]] = {}
    for command in asked:
        if command.run is not None:
            found.setdefault(command.run, []).append(command)
    return found
