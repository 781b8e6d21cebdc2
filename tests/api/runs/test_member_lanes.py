"""A program's run whose pool has members at the service and servers at URLs, as the configuration file has them."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from orchestrator.api.runs.run_costs import members_by_run
from orchestrator.core.lanes.via import Via
from orchestrator.core.pools.member import MemberSettings
from orchestrator.errors import InputError, UsageError
from orchestrator.ledger import read_ledger
from orchestrator.ledger.runs.runs import Run
from orchestrator.views.members import MemberStatus
from tests.api.desk import Desk, desk, numbers
from tests.engine.pools.pooled import server_at
from tests.simulation.world import ENDPOINT, SECOND_ENDPOINT, SERVER_PATH, URL

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SERVER = server_at(SECOND_ENDPOINT)
FILE = f'[endpoints."{SERVER}/"]\nvia = "http"\npath = "{SERVER_PATH}"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orchestrator.toml").write_text(FILE, encoding="utf-8")
    return tmp_path


async def run_now(d: Desk) -> Run:
    async with read_ledger(d.ledger, connect=d.dependencies.connect_to(d.ledger)) as ledger:
        [run] = await ledger.runs.all()
        return run


async def members_now(d: Desk) -> Sequence[MemberStatus]:
    async with read_ledger(d.ledger, connect=d.dependencies.connect_to(d.ledger)) as ledger:
        run = await run_now(d)
        return (await members_by_run(ledger, [run]))[run.id]


@pytest.mark.slow
async def test_a_url_takes_its_part_by_the_lane_of_its_table(folder: Path) -> None:
    async with desk(folder, endpoints=[ENDPOINT, SECOND_ENDPOINT], workers=4) as d, d.orchestrator() as orc:
        run = await orc.submit(numbers(60), endpoint=[SERVER, ENDPOINT], name="captions")
        await run.wait()
        assert d.service.paid == 60
        found = await members_now(d)
        assert [(each.endpoint, each.via) for each in found] == [(ENDPOINT, Via.QUEUE), (SERVER, Via.HTTP)]
        assert min(each.done for each in found) > 15
    at = await run_now(d)
    assert (at.service_url, at.endpoint) == (URL, ENDPOINT), "a run is at the service, if it is at any"
    assert at.settings.members == (MemberSettings(ENDPOINT), MemberSettings(SERVER, via=Via.HTTP, path=SERVER_PATH))


async def test_a_table_says_the_lane_of_a_run_at_one_endpoint_too(folder: Path) -> None:
    async with desk(folder, endpoints=[SECOND_ENDPOINT]) as d, d.orchestrator() as orc:
        await (await orc.submit(numbers(2), endpoint=SERVER, name="captions")).wait()
        assert d.service.paid == 2
        assert (await run_now(d)).via is Via.HTTP


async def test_a_run_that_began_at_a_url_is_not_at_the_service_as_well(folder: Path) -> None:
    (folder / "orchestrator.toml").write_text(f'[endpoints."{SERVER}"]\nvia = "openai"\n', encoding="utf-8")
    rows = [{"openai_route": "/v1/completions", "openai_input": each} for each in numbers(20)]
    async with desk(folder, endpoints=[ENDPOINT, SECOND_ENDPOINT], seconds=lambda _: 5.0) as d:
        async with d.orchestrator() as orc:
            await orc.submit(rows, endpoint=SERVER, name="captions")
            await anyio.sleep(2)
            with pytest.raises(UsageError, match=f"is for the endpoint {SERVER}"):
                await orc.submit([], endpoint=[ENDPOINT, SERVER], name="captions")
        assert (await run_now(d)).endpoint == SERVER


async def test_rows_that_were_not_checked_for_a_lane_are_not_sent_by_it(folder: Path) -> None:
    async with (
        desk(folder, endpoints=[ENDPOINT, SECOND_ENDPOINT], seconds=lambda _: 5.0) as d,
        d.orchestrator() as orc,
    ):
        run = await orc.submit(numbers(4), endpoint=ENDPOINT, name="captions")
        with pytest.raises(UsageError, match="were checked for queue, and this pool sends them by http, too; begin"):
            await orc.submit([], endpoint=[ENDPOINT, SERVER], name="captions")
        await run.wait()
        assert (await run_now(d)).settings.members == ()


async def test_a_row_that_does_not_fit_the_lane_of_every_member_is_refused_before_anything_is_sent(
    folder: Path,
) -> None:
    (folder / "orchestrator.toml").write_text(f'[endpoints."{SERVER}"]\nvia = "openai"\n', encoding="utf-8")
    async with desk(folder, endpoints=[ENDPOINT, SECOND_ENDPOINT]) as d, d.orchestrator() as orc:
        with pytest.raises(InputError, match='only an input of "openai_route" and "openai_input"'):
            await orc.submit(numbers(4), endpoint=[ENDPOINT, SERVER], name="captions", all_or_nothing=True)
        assert d.service.paid == 0
