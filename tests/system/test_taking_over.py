"""Two processes serve one ledger on a server: one works, the other one stands by and takes its place.

The short form of `python -m tests.failover`.
"""

import signal
from collections.abc import Callable, Iterator

import anyio
import pytest

from tests.failover.scene import LIMITS, NAMES, PATIENCE_S, Ended, Fault, key_of, scene
from tests.postgres.databases import Databases
from tests.system.processes import Desk, Service

pytestmark = pytest.mark.system


@pytest.fixture
def url(durable_databases: Databases) -> Iterator[str]:
    """The URL of a database with an empty ledger."""
    with durable_databases.one() as url:
        yield url


@pytest.mark.parametrize(
    ("fault", "lasts_s", "jobs"),
    [
        (Fault.ASKED, 0, 40),
        pytest.param(Fault.KILLED, 0, 160, marks=pytest.mark.slow),
        pytest.param(Fault.STOPPED, 12, 160, marks=pytest.mark.slow),
    ],
)
def test_one_that_stands_by_takes_the_place_of_one_that_is_gone(
    desk: Desk, services: Callable[..., Service], url: str, fault: Fault, lasts_s: float, jobs: int
) -> None:
    service = services(other_keys=[key_of(name) for name in NAMES])

    async def gone_through() -> Ended:
        async with scene(desk, service, url, jobs=jobs) as at:
            return await at.go_through(fault, lasts_s, after=jobs // 4)

    assert anyio.run(gone_through).faults() == []


@pytest.mark.slow
def test_a_run_whose_place_was_taken_ends_and_says_how_to_follow_it(desk: Desk, service: Service, url: str) -> None:
    desk.inputs(200)
    ledger = ("--ledger", url, "--serverless-url", service.url)
    command = ("run", "prompts.jsonl", "--endpoint", "ep1", "--output", "results.jsonl", *ledger, *LIMITS)
    run = desk.start(*command, within_s=PATIENCE_S)
    service.wait("accepted", 40)
    beside = desk.start("serve", *ledger, *LIMITS, within_s=PATIENCE_S)
    beside.until_said("stands by")
    run.signal(signal.SIGSTOP)
    beside.until_said("serving")
    run.signal(signal.SIGCONT)
    ended = run.ended()
    assert ended.exit_code == 3
    assert "the same command, given again, follows the run there" in ended.stderr

    again = desk.start(*command, within_s=PATIENCE_S).ended()
    assert again.exit_code == 0, again
    assert sorted(desk.ids()) == sorted(f"row-{n}" for n in range(200))
    beside.signal(signal.SIGTERM)
    assert beside.ended().exit_code == 0
