"""`apply`: what it shows of pipelines' files, what it records, and what it refuses."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from orchestrator.api.flows.apply import Applied, FireToCome, Recording, apply
from orchestrator.api.runs.process_commands import beside
from orchestrator.core.pipelines.due_fires import GapKind
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger, is_made
from orchestrator.units import HOUR_US
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

CAPTIONS = """name = "captions"
input = "in/{previous:%Y-%m-%d}.jsonl"
[schedule]
cron = "30 2 * * *"
zone = "Europe/Berlin"
[stage.caption]
endpoint = "abc123"
output = "out/{flow}.jsonl"
"""


class Desk:
    """A folder with pipelines' files, a ledger, and a clock that begins with 2026."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = folder / "ledger.db"
        self.clock = VirtualClock()
        self.dependencies = Dependencies(clock=self.clock, environ={}, connect=async_creator)

    async def apply(self, *texts: str, check: bool = False) -> list[Applied]:
        files = [self.folder / f"{number}.toml" for number in range(len(texts))]
        for file, text in zip(files, texts, strict=True):
            file.write_text(text)
        return await apply(files, self.ledger, check=check, dependencies=self.dependencies)

    def opened(self) -> AbstractAsyncContextManager[Ledger]:
        return beside(self.ledger, self.dependencies)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def test_check_shows_five_fires_with_their_paths_and_makes_no_ledger(desk: Desk) -> None:
    [found] = await desk.apply(CAPTIONS, check=True)

    assert (found.name, found.outcome, found.version, found.stages) == (
        "captions",
        Recording.CHECKED,
        None,
        ("caption",),
    )
    assert found.fires_at == "30 2 * * * in Europe/Berlin"
    assert [fire.fire[:10] for fire in found.fires] == [f"2026-01-0{day}" for day in (1, 2, 3, 4, 5)]
    assert found.fires[0] == FireToCome(
        fire="2026-01-01T02:30:00+01:00",
        flow="captions@20260101T013000Z",
        paths={
            "input": f"{desk.folder}/in/2025-12-31.jsonl",
            "caption.output": f"{desk.folder}/out/captions@20260101T013000Z.jsonl",
        },
    )
    assert not await is_made(desk.ledger)


async def test_a_pipeline_without_a_schedule_shows_what_a_flow_of_now_would_be(desk: Desk) -> None:
    text = CAPTIONS.partition("[schedule]")[0].replace("previous", "fire") + "[stage.caption]\nendpoint='abc123'\n"
    [found] = await desk.apply(text, check=True)
    assert found.fires_at == "when it is triggered"
    assert [fire.flow for fire in found.fires] == ["captions@20260101T000000Z"]


async def test_what_counts_from_1970_is_said_so(desk: Desk) -> None:
    text = CAPTIONS.replace('cron = "30 2 * * *"', 'every = "24h"\noffset = "15m"')
    assert (await desk.apply(text, check=True))[0].fires_at == "every 1 day, 15 min later than the full ones"
    assert (await desk.apply(text.replace('offset = "15m"', ""), check=True))[0].fires_at == "every 1 day"


async def test_it_is_recorded_in_a_ledger_that_is_made_and_only_anew_where_it_changed(desk: Desk) -> None:
    [first] = await desk.apply(CAPTIONS)
    [again] = await desk.apply(CAPTIONS)
    [changed] = await desk.apply(CAPTIONS.replace("30 2", "45 2"))

    assert [(each.outcome, each.version) for each in (first, again, changed)] == [
        (Recording.RECORDED, 1),
        (Recording.UNCHANGED, 1),
        (Recording.RECORDED, 2),
    ]
    async with desk.opened() as ledger:
        [now] = await ledger.flows.pipelines.all()
    assert now.pipeline.schedule is not None
    assert now.pipeline.schedule.cron == ("45 2 * * *",)
    assert now.watermark is not None
    assert now.watermark.at_us <= desk.clock.now()


async def test_what_was_due_before_a_change_is_decided_by_what_it_was(desk: Desk) -> None:
    hourly = CAPTIONS.replace("30 2", "0 *").replace("previous:%Y-%m-%d", "flow")
    await desk.apply(hourly)
    desk.clock.jump(3 * HOUR_US)
    await desk.apply(CAPTIONS)

    async with desk.opened() as ledger:
        assert [flow.name for flow in await ledger.flows.live()] == [
            f"captions@20260101T0{hour}0000Z" for hour in (1, 2, 3)
        ]


async def test_what_a_pause_has_left_out_is_a_gap_once_it_is_changed(desk: Desk) -> None:
    hourly = CAPTIONS.replace("30 2", "0 *").replace("previous:%Y-%m-%d", "flow")
    await desk.apply(hourly)
    async with desk.opened() as ledger:
        [before] = await ledger.flows.pipelines.all()
        assert await ledger.flows.pipelines.pause(before, now=desk.clock.now(), until=None, note="a holiday")
    desk.clock.jump(3 * HOUR_US)
    await desk.apply(CAPTIONS)

    async with desk.opened() as ledger:
        [now] = await ledger.flows.pipelines.all()
        [gap] = await ledger.flows.fires.gaps(now.id, 10)
        assert (gap.kind, gap.n) == (GapKind.PAUSED, 3)
        assert await ledger.flows.live() == []
        assert now.watermark is not None
        assert now.watermark.is_paused(desk.clock.now())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (CAPTIONS.replace("30 2", "61 2"), "schedule.cron"),
        (
            CAPTIONS + '[stage.sum]\ncommand=["cat"]\npriority=3\n',
            "a command has no jobs at an endpoint; it takes errors, include, max-attempts, output",
        ),
    ],
    ids=["cron", "command"],
)
async def test_where_one_file_is_wrong_none_is_recorded(desk: Desk, text: str, why: str) -> None:
    with pytest.raises(UsageError) as raised:
        await desk.apply(CAPTIONS.replace("captions", "others"), text)
    assert why in str(raised.value)
    assert not await is_made(desk.ledger)


async def test_two_files_of_one_name_are_refused(desk: Desk) -> None:
    with pytest.raises(UsageError, match=r"captions is the pipeline of .*0\.toml, too"):
        await desk.apply(CAPTIONS, CAPTIONS)
