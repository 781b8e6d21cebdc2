"""Three processes serve one ledger on a server: what comes of runs is what comes of them in a file, whoever has which."""

import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.postgres.databases import Databases
from tests.system.processes import FAST, Desk, Service

pytestmark = [pytest.mark.system, pytest.mark.slow]

ENDPOINTS = ("ep1", "ep2", "ep3")
SERVING = 3
JOBS = 40
SLOW = ("--limit", "run=10/1:10", "--limit", "status=200/1:20")
"""Limits that leave time to stop one."""


@pytest.fixture
def url(durable_databases: Databases) -> Iterator[str]:
    """The URL of a database with an empty ledger."""
    with durable_databases.one() as url:
        yield url


def results_of(desk: Desk, name: str) -> list[Any]:
    """What is in a file of results, without what is of the moment."""
    return [{key: row[key] for key in ("custom_id", "status", "output")} for row in desk.rows(f"{name}.jsonl")]


def test_runs_at_three_endpoints_give_the_same_files_as_in_a_file_while_one_of_three_is_stopped(
    desk: Desk, services: Callable[..., Service], url: str
) -> None:
    service = services(finish_after_s=(0.2, 0.4), others=ENDPOINTS[1:])
    places: dict[str, tuple[str, ...]] = {
        "file": ("--serverless-url", service.url, *FAST),
        "server": ("--ledger", url, "--serverless-url", service.url, *SLOW),
    }
    for endpoint in ENDPOINTS:
        desk.inputs(JOBS, f"{endpoint}.in.jsonl", of=endpoint)

    def command(endpoint: str, where: str) -> tuple[str, ...]:
        name = f"{endpoint}.{where}"
        given = ("run", f"{endpoint}.in.jsonl", "--name", name, "--endpoint", endpoint, "--output", f"{name}.jsonl")
        return (*given, "--uncertain-after", "2s", *places[where])

    for endpoint in ENDPOINTS:
        ended = desk.call(*command(endpoint, "file"))
        assert ended.exit_code == 0, ended
    before = service.counted("accepted")

    serving = [desk.start("serve", *places["server"]) for _ in range(SERVING)]
    for each in serving:
        each.until_said("serving")
    runs = [desk.start(*command(endpoint, "server")) for endpoint in ENDPOINTS]
    paused = f"{ENDPOINTS[0]}.server"
    service.wait("accepted", before + JOBS // 2)
    assert desk.call("pause", paused, "--ledger", url).exit_code == 0
    serving[0].signal(signal.SIGTERM)
    assert desk.call("continue", paused, "--ledger", url).exit_code == 0
    for run in runs:
        ended = run.ended()
        assert ended.exit_code == 0, ended
    for endpoint in ENDPOINTS:
        assert results_of(desk, f"{endpoint}.server") == results_of(desk, f"{endpoint}.file")
    assert service.counted("accepted") - before == SERVING * JOBS
    verified = desk.call("verify", "--ledger", url)
    assert verified.exit_code == 0, verified
    for each in serving[1:]:
        each.signal(signal.SIGTERM)
    assert [each.ended().exit_code for each in serving] == [0, 0, 0]


PIPELINE = """name = "doubled"
input = "in.jsonl"
[stage.first]
endpoint = "ep1"
serverless-url = "{url}"
[stage.second]
step = "steps.py:twice"
endpoint = "ep2"
serverless-url = "{url}"
"""
STEPS = """
def twice(row):
    return [{"of": row["custom_id"], "number": number} for number in range(2)]
"""
FLOW_S_MAX = 20.0
"""Whoever hears of a run only because it looks now and then takes minutes."""


def test_a_flow_goes_on_at_once_where_the_engines_of_its_stages_and_of_its_schedule_are_in_one_process(
    desk: Desk, services: Callable[..., Service], url: str
) -> None:
    service = services(finish_after_s=(0.1, 0.2), others=ENDPOINTS[1:])
    desk.inputs(3, "in.jsonl")
    desk.write("steps.py", STEPS)
    desk.write("doubled.toml", PIPELINE.format(url=service.url))
    assert desk.call("apply", "doubled.toml", "--ledger", url).exit_code == 0
    serving = desk.start("serve", "--ledger", url, "--serverless-url", service.url, *FAST)
    serving.until_said("schedules and flows: served by this process")
    for number in range(2):  # the first one has engines begin, the second one finds them
        flow = desk.start("trigger", "doubled", "--wait", "--ledger", url, within_s=FLOW_S_MAX)
        ended = flow.ended()
        assert ended.exit_code == 0, ended
        assert service.counted("accepted") == (number + 1) * (3 + 6)
    serving.signal(signal.SIGTERM)
    assert serving.ended().exit_code == 0
