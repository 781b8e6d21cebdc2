"""What people are told of stands in the ledger with the fact that it is of, or not at all: whoever looks between two
transactions, as the one who sends does, finds both or neither.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from orchestrator.core.pipelines.flow_lifecycle import FlowEvent, FlowKind
from orchestrator.core.pipelines.pipeline import News, Notify
from orchestrator.core.pipelines.run_messages import RunNews
from orchestrator.settings.run_settings import RunSettings
from tests.conformance.test_run_outbox import cancelled
from tests.ledger.ledgers import a_run, opened
from tests.ledger.pipelines import a_pipeline, applied
from tests.simulation.clock import EPOCH_AT, VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

ENDED_FLOWS: Final = "SELECT count(*) FROM flows WHERE ended_at IS NOT NULL"
MESSAGES_OF_FLOWS: Final = "SELECT count(*) FROM outbox"
UNFINISHED_JOBS: Final = "SELECT count(*) FROM jobs WHERE ended_at IS NULL"
ENDS_OF_RUNS: Final = f"SELECT count(*) FROM run_outbox WHERE news = '{RunNews.FAILED}'"
EPISODES: Final = "SELECT count(*) FROM episodes"
NEWS_OF_EPISODES: Final = f"SELECT count(*) FROM run_outbox WHERE news <> '{RunNews.FAILED}'"


class Looker:
    """Looks into the file after each commit, as another process may."""

    def __init__(self, path: Path, *questions: str) -> None:
        self._path, self._questions = path, questions
        self.found: list[tuple[int, ...]] = []
        """What the answers were, where they were others than before."""

    def committing(self) -> bool:
        return True

    def committed(self) -> None:
        with closing(sqlite3.connect(self._path)) as connection:
            answers = tuple(connection.execute(question).fetchone()[0] for question in self._questions)
        if self.found[-1:] != [answers]:
            self.found.append(answers)


async def test_that_a_flow_has_ended_is_owed_by_the_transaction_in_which_it_ends(tmp_path: Path) -> None:
    looker = Looker(path := tmp_path / "l.db", ENDED_FLOWS, MESSAGES_OF_FLOWS)
    pipeline = replace(a_pipeline(), notify=Notify(url="https://hooks.example/x", on=(News.DONE, News.FAILED)))
    async with opened(path, clock=VirtualClock(), commits=looker) as ledger:
        of = await applied(ledger, pipeline, now=ledger.now())
        await ledger.flows.add(of.id, of.name, of.definition, [EPOCH_AT, EPOCH_AT + 1_000_000], FlowKind.TRIGGERED)
        await ledger.flows.start([1, 2])
        for flow, event in ((1, FlowEvent.FAILED), (2, FlowEvent.SUCCEEDED), (2, FlowEvent.FAILED)):
            await ledger.flows.end(flow, event, "why")
    assert looker.found == [(0, 0), (1, 1), (2, 2)], "and what did not happen is not told of"


async def test_that_a_run_is_over_is_owed_by_the_step_that_ends_its_last_job(tmp_path: Path) -> None:
    looker = Looker(path := tmp_path / "l.db", UNFINISHED_JOBS, ENDS_OF_RUNS)
    async with opened(path, clock=VirtualClock(), commits=looker) as ledger:
        run = await a_run(ledger, 3, settings=RunSettings(notify="env:HOOK"))
        await cancelled(ledger, run.id)
    assert looker.found[-4:] == [(3, 0), (2, 0), (1, 0), (0, 1)]


async def test_what_holds_of_a_run_is_owed_by_the_transaction_that_writes_it_down(tmp_path: Path) -> None:
    looker = Looker(path := tmp_path / "l.db", EPISODES, NEWS_OF_EPISODES)
    async with opened(path, clock=VirtualClock(), commits=looker) as ledger:
        run = await a_run(ledger, 1, settings=RunSettings(notify="mail"))
        for news in (RunNews.STALLED, RunNews.ON_HOLD, RunNews.STALLED):
            await ledger.flows.run_outbox.begin_episode(run.id, news, "why")
    assert looker.found == [(0, 0), (1, 1), (2, 2), (3, 3)], "that it has started, and what holds"
