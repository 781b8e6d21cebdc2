"""A run with a pool, for those who look at it and change it: doctor, limits, results, retry."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.account.run_endpoints import RunEndpoints
from orchestrator.api.admin.limits import limits, limits_reset, limits_set
from orchestrator.api.inspect.doctor import doctor
from orchestrator.api.inspect.status import runs_now, show
from orchestrator.api.outcomes.result_files import write_files
from orchestrator.api.outcomes.result_lines import results
from orchestrator.api.runs.process_commands import retry
from orchestrator.client import Service
from orchestrator.core.diagnosis.causes import Cause
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.core.pools.member_health import MemberState
from orchestrator.emulator.jobs.jobs import WorkerResult as Answer
from orchestrator.emulator.jobs.scaling_rules import Scaling
from orchestrator.errors import NotSent, UsageError
from orchestrator.ledger import holder, read_ledger
from orchestrator.settings.command_requests import DoctorRequest, ResultsRequest, RetryChoice
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.words_and_defaults import Include
from tests.api.desk import desk, numbers
from tests.simulation.world import ENDPOINT, URL

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

BIG = "big"
POOL = [ENDPOINT, BIG]
CONNECTION = ConnectionSettings(serverless_url=URL, api_key="key")
AWAY = Scaling(workers_min=4, workers_max=4, machines=0)


@pytest.mark.slow
async def test_a_member_that_is_not_well_holds_up_nothing_and_is_told(tmp_path: Path) -> None:
    async with (
        desk(tmp_path, endpoints=POOL, scaling={ENDPOINT: AWAY}, seconds=lambda _: 5.0) as d,
        d.orchestrator() as orc,
    ):
        run = await orc.submit(numbers(60), endpoint=POOL, name="captions")
        await anyio.sleep(15)
        async with read_ledger(d.ledger, clock=d.clock) as ledger:
            [shown] = await runs_now(ledger, holder(d.ledger))
        assert [(each.endpoint, each.state) for each in shown.members] == [
            (ENDPOINT, MemberState.UNWELL),
            (BIG, MemberState.WELL),
        ]
        assert (shown.held_up, shown.window_allowed) == (None, 2_000)
        found = await doctor(DoctorRequest(ledger=d.ledger, connection=CONNECTION), d.dependencies)
        told = {each.about: each for each in found.findings}[f"captions: {ENDPOINT}"]
        assert (told.cause, told.needs_person) == (Cause.MEMBER_UNWELL, False)
        assert told.evidence == (f"what waited there goes to {BIG}",)
        await run.wait()
        assert run.counts["succeeded"] == d.service.paid == 60


class Timed(RunEndpoints):
    """An account in which executions may take so long at its endpoints; None: one may not look."""

    def __init__(self, service: Service, rest_url: str, timeouts: Mapping[str, int | None]) -> None:
        super().__init__(service, rest_url)
        self._timeouts = timeouts

    async def timeout_ms(self, endpoint: str) -> int | None:
        found = self._timeouts[endpoint]
        if found is None:
            raise NotSent("403")
        return found


@pytest.mark.parametrize(
    ("there", "own", "found"),
    [
        ({ENDPOINT: 600_000, BIG: 300_000}, None, [f"{ENDPOINT}: 10 min, {BIG}: 5 min"]),
        ({ENDPOINT: 600_000, BIG: 300_000}, "1m", []),
        ({ENDPOINT: 600_000, BIG: None}, None, []),
    ],
)
async def test_members_that_allow_an_execution_different_times_are_named(
    tmp_path: Path, there: dict[str, int | None], own: str | None, found: list[str]
) -> None:
    function = tmp_path / "captions.py"
    function.write_text("def caption(row):\n    return row\n")
    async with desk(tmp_path, endpoints=POOL, seconds=lambda _: 50.0) as d, d.orchestrator() as orc:
        members = [*POOL, f"local:{function}:caption"]
        await orc.submit(numbers(60), endpoint=members, name="captions", execution_timeout=own)
        await anyio.sleep(15)
        around = replace(d.dependencies, account=partial(Timed, timeouts=there))
        connection = replace(CONNECTION, rest_url="https://rest.example")
        told = await doctor(DoctorRequest(ledger=d.ledger, connection=connection), around)
        assert [each.evidence[0] for each in told.findings if each.cause is Cause.MEMBERS_DIFFER] == found
        assert {each.cause for each in told.findings} <= {Cause.MEMBERS_DIFFER}, "no function is asked over HTTP"


async def test_limits_are_those_of_a_member(tmp_path: Path) -> None:
    async with desk(tmp_path, endpoints=POOL) as d, d.orchestrator() as orc:
        run = await orc.submit(numbers(4), endpoint=POOL, name="captions")
        await run.wait()
        slow = {Operation.RUN: Limit(5, 10)}
        for change in (
            limits_set(d.ledger, "captions", slow, d.dependencies),
            limits_reset(d.ledger, "captions", (), d.dependencies),
        ):
            with pytest.raises(UsageError, match=f"name one with --endpoint: {ENDPOINT}, {BIG}"):
                await change
        await limits_set(d.ledger, "captions", slow, d.dependencies, endpoint=BIG)
        own, other = await limits(d.ledger, "captions")
        assert [each.operations[0].set_at is None for each in (own, other)] == [True, False]


async def test_rows_say_which_member_executed_them_beside_the_worker(tmp_path: Path) -> None:
    output, errors = tmp_path / "out.jsonl", tmp_path / "errors.jsonl"
    async with desk(tmp_path, endpoints=POOL, seconds=lambda _: 2.0) as d, d.orchestrator() as orc:
        await (await orc.submit(numbers(30), endpoint=POOL, name="captions")).wait()
        await (await orc.submit(numbers(3), endpoint=BIG, name="other")).wait()
        done = {each.endpoint: each.done for each in (await show(d.ledger, "captions")).members}
        async with read_ledger(d.ledger) as ledger:
            [run] = await ledger.runs.all([1])
            await write_files(ledger, run.id, output, errors, include=[Include.WORKER])
        rows = [json.loads(line) for line in output.read_text().splitlines()]
        assert {each: sum(row["endpoint"] == each for row in rows) for each in POOL} == done
        assert all(row["worker"] for row in rows)
        lines: list[bytes] = []
        await results(ResultsRequest(ledger=d.ledger, name="other", include=(Include.WORKER,)), lines.append)
        assert not any(b"endpoint" in line for line in lines)
        lines.clear()
        await results(ResultsRequest(ledger=d.ledger, name="other", include=(Include.ENDPOINT,)), lines.append)
        assert all(json.loads(line)["endpoint"] == BIG for line in b"".join(lines).splitlines())


async def test_what_failed_is_tried_again_at_the_member_that_is_named(tmp_path: Path) -> None:
    is_mended = False

    def work(raw: bytes, _number: int) -> Answer:
        return Answer(output=raw) if is_mended else Answer(error="CUDA out of memory")

    async with desk(tmp_path, endpoints=POOL, work=work) as d, d.orchestrator() as orc:
        run = await orc.submit(numbers(6), endpoint=POOL, name="captions", max_attempts=1, breaker="off")
        await run.wait()
        is_mended = True
        assert await run.retry(endpoint=BIG) == "6 failed jobs are queued again, with endpoint big"
        await run.wait()
        done = {each.endpoint: each.done for each in (await show(d.ledger, "captions")).members}
        assert done == {ENDPOINT: 0, BIG: 6}


@pytest.mark.parametrize("endpoint", ["pool:captions", f"{ENDPOINT},{BIG}", "local:nowhere.py:f"])
async def test_jobs_are_tried_again_at_one_endpoint_and_at_no_function_that_is_no_member(
    tmp_path: Path, endpoint: str
) -> None:
    async with desk(tmp_path, endpoints=POOL, work=lambda _raw, _n: Answer(error="no")) as d, d.orchestrator() as orc:
        run = await orc.submit(numbers(2), endpoint=POOL, name="captions", max_attempts=1, breaker="off")
        await run.wait()
        with pytest.raises(UsageError, match=f"captions.* has {ENDPOINT}, {BIG}"):
            await retry(d.ledger, "captions", d.dependencies, chosen=RetryChoice(endpoint=endpoint))
