"""The same run again: what it may be told anew, and what it keeps."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypedDict

import pytest
from msgspec.structs import replace

from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation
from orchestrator.core.text.durations import Policy
from orchestrator.errors import StoppedError, UsageError
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.output_settings import OutputSettings
from orchestrator.settings.run_request import Configuration, RunRequest
from orchestrator.settings.run_settings import RunSettings
from orchestrator.views.status import Summary
from tests.api.runs.test_program import Silence, carried_out, request_in
from tests.engine.rows import empty_ledger
from tests.simulation.clock import VirtualClock
from tests.simulation.world import ENDPOINT, URL, SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

JOBS = 20


class Files(TypedDict, total=False):
    output: Path
    errors: Path


class Desk:
    """Somebody who gives one command after the other, in one folder."""

    def __init__(self, folder: Path, **service: Any) -> None:
        self.folder = folder
        self.clock = VirtualClock()
        self.service = SimulatedService(self.clock, **{"workers": 50, **service})
        self.console = Silence()
        empty_ledger(folder / "ledger.db")

    async def run(self, jobs: int = JOBS, **changes: Any) -> Summary:
        return await self.carry_out(replace(request_in(self.folder, jobs), **changes))

    async def resume(self, **changes: Any) -> Summary:
        request = RunRequest(
            name="in",
            source=None,
            endpoint=None,
            ledger=self.folder / "ledger.db",
            connection=ConnectionSettings(serverless_url=URL, api_key="key"),
        )
        return await self.carry_out(replace(request, **changes))

    async def carry_out(self, request: RunRequest) -> Summary:
        return await carried_out(request, self.service, self.clock, self.console)


@asynccontextmanager
async def desk_in(folder: Path, **service: Any) -> AsyncIterator[Desk]:
    desk = Desk(folder, **service)
    async with desk.service.serving():
        yield desk


@pytest.mark.parametrize("by_resume", [False, True])
async def test_a_mistyped_endpoint_id_is_mended_by_the_right_one(tmp_path: Path, by_resume: bool) -> None:
    async with desk_in(tmp_path) as desk:
        with pytest.raises(StoppedError, match=rf"\(404\): {URL}/v2/{ENDPOINT}x; .*--endpoint ID") as raised:
            await desk.run(endpoint=f"{ENDPOINT}x")
        assert isinstance(raised.value.summary, Summary)
        assert raised.value.summary.jobs["queued"] == JOBS
        summary = await (desk.resume(endpoint=ENDPOINT) if by_resume else desk.run())
        assert summary.jobs["succeeded"] == desk.service.paid == JOBS
        assert (
            f"in: at the endpoint {ENDPOINT} from now on; {ENDPOINT}x at {URL} never took a job of it"
            in desk.console.lines
        )


async def test_a_run_of_which_the_service_took_a_job_stays_at_its_endpoint(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        await desk.run()
        for again in (desk.run, desk.resume):
            with pytest.raises(
                UsageError,
                match=rf"is for the endpoint {ENDPOINT} at {URL} \({ENDPOINT} may have taken a job of it\); ",
            ):
                await again(endpoint="other")
        assert (await desk.resume(endpoint=ENDPOINT)).jobs["succeeded"] == JOBS


async def test_the_same_command_without_a_flag_goes_on_with_what_the_last_one_said(tmp_path: Path) -> None:
    limits = {**CONTRACT_LIMITS, Operation.RUN: Limit(700, 10, 200)}
    settings = RunSettings(max_attempts=5, policy=Policy(ttl_ms=3_600_000), priority=2)
    keys = {"http://other": "env:OTHER_KEY", "http://third": "a-secret-key"}
    connection = ConnectionSettings(serverless_url=URL, api_key="key", limits=limits, pacing="window", keys=keys)
    async with desk_in(tmp_path) as desk:
        flags = ("serverless-url", "output", "errors", "limit", "pacing", "service-key", "max-attempts", "ttl")
        first = Configuration(in_flags=frozenset((*flags, "priority")))
        await desk.run(connection=connection, settings=settings, configuration=first)
        plain = ConnectionSettings(api_key="key")
        nothing: dict[str, Any] = {"output": None, "errors": None, "settings": RunSettings(priority=1)}
        by_variable = Configuration(in_environment=frozenset({"priority"}))
        await desk.run(JOBS + 1, **nothing, connection=plain, configuration=by_variable)
        (line,) = [line for line in desk.console.lines if line.startswith("in: as before: ")]
        files = f"--output {tmp_path}/out.jsonl --errors {tmp_path}/errors.jsonl"
        assert line == (
            f"in: as before: {files} --serverless-url {URL} --limit run=700/10:200 --pacing window"
            " --service-key http://other=env:OTHER_KEY --max-attempts 5 --ttl '1 h'"
        )
        assert len((tmp_path / "out.jsonl").read_text().splitlines()) == JOBS + 1
        assert b"a-secret-key" not in (tmp_path / "ledger.db").read_bytes()

        desk.console.lines.clear()
        await desk.resume(connection=plain, configuration=Configuration())
        assert desk.console.lines[0] == (
            f"in: as before: {files} --limit run=700/10:200 --pacing window --service-key http://other=env:OTHER_KEY"
            " --max-attempts 5 --priority 1 --ttl '1 h'"
        )
        desk.console.lines.clear()
        await desk.run(**nothing, configuration=Configuration(), fresh_start=True)
        await desk.resume(configuration=Configuration())
        assert [line for line in desk.console.lines if "--limit" in line or "--max-attempts" in line] == []


@pytest.mark.slow
async def test_a_file_that_the_run_has_not_written_is_not_replaced_unless_that_is_said(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        other, out = tmp_path / "other.jsonl", tmp_path / "out.jsonl"
        out.write_text("")  # nothing is lost with it
        await desk.run()
        await desk.run()
        other.write_text("dear")
        for files in (Files(output=other), Files(errors=other)):
            with pytest.raises(UsageError, match=rf"{other}: this file is there already.* --overwrite$"):
                await desk.run(**files)
        assert other.read_text() == "dear"
        await desk.run(output=other, errors=Path("/dev/null"), overwrite=True)
        await desk.run(output=other, errors=Path("/dev/null"))
        assert len(other.read_text().splitlines()) == JOBS
        await desk.resume(output=other)


async def test_how_files_are_written_is_refused_where_none_are_unless_it_is_said_of_all_runs(tmp_path: Path) -> None:
    nothing: dict[str, Any] = {"output": None, "errors": None, "writing": OutputSettings(split=2)}
    async with desk_in(tmp_path) as desk:
        for name in ("split", "include"):
            with pytest.raises(UsageError, match=f"--{name} says how the files of --output are written, and there are"):
                await desk.run(**nothing, configuration=Configuration(in_flags=frozenset({name})))
        await desk.run(**nothing, configuration=Configuration(in_file={"split": ("2",)}))
        await desk.run()
        again = await desk.run(**nothing, configuration=Configuration(in_flags=frozenset({"split"})))
        assert again.jobs["succeeded"] == JOBS, "they go where they went before"


async def test_a_file_that_another_run_has_written_is_not_replaced_whatever_is_said(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        out, link = tmp_path / "out.jsonl", tmp_path / "link.jsonl"
        await desk.run()
        link.symlink_to(out)
        for path in (out, link):
            with pytest.raises(UsageError, match=rf"{path}: the run 'in' of this ledger has written this file"):
                await desk.run(name="two", output=path, errors=tmp_path / "e2", overwrite=True)
        out.rename(tmp_path / "kept.jsonl")
        await desk.run(1, name="two", output=out, errors=tmp_path / "e2")
        with pytest.raises(UsageError, match=rf"{out}: the run 'two' of this ledger"):
            await desk.resume()
        await desk.resume(output=tmp_path / "in.out.jsonl", errors=tmp_path / "in.errors.jsonl")
