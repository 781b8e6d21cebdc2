"""Whose an output file is: neither a flow nor a run replaces what somebody else has written."""

import json
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.api.runs.file_owners import check_not_appeared, file_states, owner_of
from orchestrator.core.gates.failure_breaker import OFF
from orchestrator.errors import StorageError
from orchestrator.settings.run_settings import RunSettings
from orchestrator.stores.object_url import ObjectUrl
from tests.api.runs.test_program import Silence, carried_out, request_in
from tests.engine.flowing import a_pipeline, completing, flowing
from tests.engine.rows import empty_ledger
from tests.ledger.ledgers import a_run, opened
from tests.ledger.pipelines import applied, every
from tests.simulation.clock import VirtualClock
from tests.simulation.world import SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

THEIRS = b'{"custom_id":"theirs","note":"of ten years"}\n'
FIRES = ("p@20260101T000600Z", "p@20260101T001200Z")


@pytest.mark.parametrize("by_link", [False, True])
async def test_a_flow_does_not_replace_what_its_pipeline_has_not_written(tmp_path: Path, by_link: bool) -> None:
    there = tmp_path / f"out-{FIRES[0]}.jsonl"
    kept = tmp_path / "kept.jsonl" if by_link else there
    kept.write_bytes(THEIRS)
    if by_link:
        there.symlink_to(kept)
    async with flowing(tmp_path, transport=completing()) as p:
        await applied(p.ledger, a_pipeline(tmp_path, every(0.1)), now=p.ledger.now())
        p.scheduler.on_change()
        await anyio.sleep(400)
        assert await p.states() == {FIRES[0]: "failed"}
        assert (await p.flow(FIRES[0])).why.endswith(
            f"{there}: this file is there already, and no flow of this pipeline has written it; move it, or name another"
            " output"
        )
        await anyio.sleep(400)
        assert (await p.states())[FIRES[1]] == "succeeded"
    assert kept.read_bytes() == THEIRS


@pytest.mark.parametrize(
    ("url", "is_its"),
    [
        ("s3://bucket/out.jsonl", True),
        ("s3://bucket/out-00002.jsonl", True),
        ("s3://bucket/out-2.jsonl", False),
        ("s3://bucket/out-later.jsonl", False),
        ("s3://another/out-00002.jsonl", False),
    ],
)
async def test_whose_an_object_is_no_store_is_asked(tmp_path: Path, url: str, is_its: bool) -> None:
    settings = RunSettings(output="s3://bucket/out.jsonl", files_on="a", cli_defaults={"split": ("100",)})
    async with opened(tmp_path / "l.db") as ledger:
        run = await a_run(ledger, settings=settings)
        assert owner_of(ObjectUrl(url), [run], None, ledger.address, machine="b") == (run if is_its else None)


class Meddling(Silence):
    """While a run goes on, somebody puts a file in the place of its results."""

    def __init__(self, path: Path, content: bytes) -> None:
        super().__init__()
        self._path = path
        self._content = content

    def ready(self) -> None:
        self._path.write_bytes(self._content)


async def test_a_run_does_not_replace_a_file_that_appears_while_it_goes_on(tmp_path: Path) -> None:
    clock, out = VirtualClock(), tmp_path / "out.jsonl"
    empty_ledger(tmp_path / "ledger.db")
    service = SimulatedService(clock, workers=50)
    request = replace(request_in(tmp_path, 5), settings=RunSettings(breaker=OFF))
    async with service.serving():
        with pytest.raises(StorageError, match="has appeared while the run went on, and the run has not written it"):
            await carried_out(request, service, clock, Meddling(out, THEIRS))
        assert out.read_bytes() == THEIRS
        out.unlink()
        await carried_out(request, service, clock, Silence())
        assert len(out.read_bytes().splitlines()) == service.paid == 5
        own = out.read_bytes()
        out.unlink()
        await carried_out(request, service, clock, Meddling(out, own.splitlines(keepends=True)[0]))
        assert out.read_bytes() == own, "another process of the run had written it"
        out.unlink()
        overwriting = replace(request, overwrite=True)
        await carried_out(overwriting, service, clock, Meddling(out, THEIRS))
    assert out.read_bytes() == own
    assert [json.loads(line)["output"]["n"] for line in own.splitlines()] == list(range(5))


async def test_what_was_there_before_and_what_is_no_file_is_no_news(tmp_path: Path) -> None:
    out, errors = tmp_path / "o.csv", tmp_path / "e.jsonl"
    async with opened(tmp_path / "l.db") as ledger:
        run = await a_run(ledger)
        out.write_text("custom_id,job_id\n1,2\n")
        before = file_states((out, errors, Path("/dev/null")))
        await check_not_appeared(ledger, run, before, out, None)
        errors.touch()
        await check_not_appeared(ledger, run, before, out, None)
        out.write_text("no table\n1,2\n")
        with pytest.raises(StorageError, match=r"o\.csv: this file has appeared"):
            await check_not_appeared(ledger, run, before, out, None)
