"""What a process that shares a ledger lacks to serve its shards: keys, variables, files that only other machines have.

It is found out beside the loop in which the process bids, once for each run, and seen again now and then: files come
and go.
"""

import fnmatch
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import anyio
from anyio import to_thread

from orchestrator.core.ownership.shard_bids import KEEPERS, Ability
from orchestrator.core.pipelines.flow_paths import needs_folder
from orchestrator.core.text.wording import counted
from orchestrator.engine.collecting.output_validator import validator_of
from orchestrator.engine.process.engine_process import EngineProcess
from orchestrator.errors import UsageError
from orchestrator.ledger.processes.shard_needs import ShardNeeds
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.run_settings import RunSettings

log = logging.getLogger(__name__)

CHECK_EVERY_S: Final = 30.0
"""What is known is found out anew so often."""

RETRY_S: Final = 1.0
"""Where the ledger could not be asked."""

LOADED_S_MAX: Final = 10.0
"""How long people's code may take until it is loaded; what takes longer is loaded by whoever serves the run."""

NO_PIPELINES: Final = "it was told to leave them to others"

ALL_OF_IT: Final = 1_000_000
"""So many things somebody lacks who leaves a shard to any other one."""


@dataclass(kw_only=True, eq=False)
class ShardAbility:
    """Of one `process`. Unless it `takes_pipelines` it leaves schedules and flows to others; where it is there for
    `only` one run, all but the shard of that, as long as there is anybody else.
    """

    process: EngineProcess
    takes_pipelines: bool
    only: int | None = None
    _needs: ShardNeeds = field(init=False, default_factory=ShardNeeds)
    _runs: Mapping[int, Sequence[int]] = field(init=False, default_factory=dict)
    """Those of each shard where anything is to be done."""

    _why: dict[int, str | None] = field(init=False, default_factory=dict)
    """What is lacking to serve each run, by its number; None where nothing is."""

    _why_not_keeper: str | None = field(init=False, default=None)
    _folders_lacking: int = field(init=False, default=0)
    _is_keeper_known: bool = field(init=False, default=False)
    _due_s: float = field(init=False, default=0.0)
    _changed: anyio.Event = field(init=False, default_factory=anyio.Event)

    def needs_are(self, needs: ShardNeeds) -> None:
        """That is to be done now."""
        if needs is self._needs:
            return
        self._needs = needs
        self._runs = needs.runs_of_shards()
        if not all(run in self._why for run in needs.runs):
            self._changed.set()

    def of(self, shard: int) -> Ability:
        """What can be done with that shard."""
        if shard == KEEPERS and not self.takes_pipelines:
            return Ability.NEVER
        if self._is_of_others(shard) or self._lacks(shard) is not None:
            return Ability.LACKS
        is_known = (
            self._is_keeper_known if shard == KEEPERS else all(run in self._why for run in self._runs.get(shard, ()))
        )
        return Ability.SERVES if is_known else Ability.UNKNOWN

    @property
    def lacks(self) -> dict[int, str]:
        """What is lacking, by the numbers of the shards."""
        found = {shard: self._lacks(shard) for shard in sorted({KEEPERS, *self._runs})}
        return {shard: why for shard, why in found.items() if why is not None}

    @property
    def lack_counts(self) -> dict[int, int]:
        """How many things are lacking, by the numbers of the shards: the less, the better it is served here."""
        found = {shard: self._lack_count(shard) for shard in (KEEPERS, *self._runs)}
        return {shard: number for shard, number in found.items() if number}

    def _lack_count(self, shard: int) -> int:
        if self._is_of_others(shard) or (shard == KEEPERS and not self.takes_pipelines):
            return ALL_OF_IT
        if shard == KEEPERS:
            return self._folders_lacking
        return sum(self._why.get(run) is not None for run in self._runs.get(shard, ()))

    def _is_of_others(self, shard: int) -> bool:
        return self.only is not None and self.only not in self._runs.get(shard, ())

    def _lacks(self, shard: int) -> str | None:
        if shard == KEEPERS:
            return self._why_not_keeper if self.takes_pipelines else NO_PIPELINES
        return next((why for run in self._runs.get(shard, ()) if (why := self._why.get(run)) is not None), None)

    async def serve(self) -> None:
        """Finds it out, until cancelled."""
        while True:
            self._changed = anyio.Event()
            wait_s = max(0.0, self._due_s - anyio.current_time())
            try:
                await self._find_out()
            except Exception as error:  # noqa: BLE001  whatever is wrong here: the process must go on with what it can do
                log.warning("whether runs can be served here is unknown: %s", error)
                await anyio.sleep(RETRY_S)
            with anyio.move_on_after(wait_s):
                await self._changed.wait()

    async def _find_out(self) -> None:
        wanted = self._needs.runs
        is_due = anyio.current_time() >= self._due_s
        self._why = {run: why for run, why in self._why.items() if run in wanted}
        missing = [run for run in wanted if is_due or run not in self._why]
        found = {run.id: run for run in await self.process.ledger.runs.all(missing)} if missing else {}
        for number in missing:
            run = found.get(number)
            self._why[number] = None if run is None else await self._lacking(run)
        if is_due:
            await self._look_for_folders()
            self._is_keeper_known = True
            self._due_s = anyio.current_time() + CHECK_EVERY_S

    async def check(self, run: Run) -> None:
        """Raises `UsageError` where results of `run` cannot be judged here."""
        if (why := await self._unjudged(run.settings)) is not None:
            raise UsageError(why)

    async def _lacking(self, run: Run) -> str | None:
        try:
            self.process.services.check_reach(run)
        except UsageError as error:
            return error.message
        there = [name for name, value in self.process.dependencies.environ.items() if value]
        named = [pattern for pattern in run.settings.allow_env if not fnmatch.filter(there, pattern)]
        if named:
            return f"{' and '.join(named)} {'is' if len(named) == 1 else 'are'} not set"
        return await self._unjudged(run.settings)

    async def _unjudged(self, settings: RunSettings) -> str | None:
        if settings.schema is None and settings.check is None:
            return None
        with anyio.move_on_after(LOADED_S_MAX):
            return await to_thread.run_sync(self._why_not_judged, settings, abandon_on_cancel=True)
        return None

    def _why_not_judged(self, settings: RunSettings) -> str | None:
        try:
            validator = validator_of(settings, self.process.dependencies.user_code)
        except UsageError as error:
            return error.message
        if validator is not None:
            validator.leave()
        return None

    async def _look_for_folders(self) -> None:
        every = [each.pipeline for each in await self.process.ledger.flows.pipelines.all()]
        pipelines = {each.folder: each.name for each in reversed(every) if needs_folder(each)}
        is_folder = self.process.dependencies.is_folder
        gone = await to_thread.run_sync(lambda: [each for each in sorted(pipelines) if not is_folder(each)])
        self._folders_lacking, self._why_not_keeper = len(gone), None
        if gone:
            others = "" if len(gone) == 1 else f", nor are {counted(len(gone) - 1, 'other folder')} of pipelines"
            self._why_not_keeper = f"the folder {gone[0]} of {pipelines[gone[0]]} is not there{others}"
