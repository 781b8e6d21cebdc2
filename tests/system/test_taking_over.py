"""Two processes share one ledger on a server and listen behind one address, and one takes the place of the other where that
is gone: each webhook is answered, and counts once.

The short form of `python -m tests.failover`.
"""

import signal
from collections.abc import Callable, Iterator

import anyio
import pytest

from tests.failover.campaign import BESIDE_OTHERS, Campaign, Ended
from tests.failover.database import Database
from tests.failover.world import world
from tests.postgres.databases import Databases
from tests.system.processes import FAST, Desk, Service, looks

pytestmark = [pytest.mark.system, pytest.mark.slow]

FAULTS = ("asked", "killed", "half-a-message:8", "stopped:8")

HOOKS = {"hook_tries": 30, "hook_gap_s": 1.0}
"""A webhook is tried for longer than it takes until somebody listens again."""

JOBS = 20


@pytest.fixture
def url(durable_databases: Databases) -> Iterator[str]:
    """The URL of a database with an empty ledger."""
    with durable_databases.one() as url:
        yield url


def test_one_takes_the_place_of_another_that_is_gone_and_each_webhook_counts_once(
    desk: Desk, services: Callable[..., Service], url: str
) -> None:
    service = services(**HOOKS)

    async def gone_through() -> Ended:
        async with world(desk, service, Database.at(url), launch=desk.launch, are_listening=True) as there:
            campaign = Campaign(there, BESIDE_OTHERS)
            await there.begin()
            for fault in FAULTS:
                await campaign.meet(fault, is_last=fault == FAULTS[-1])
            return await campaign.end(is_whole=False)

    ended = anyio.run(gone_through)
    assert ended.wrong() == []
    assert [met.name for met in ended.met] == list(FAULTS)
    finished = service.counted("finished")
    service.wait("hooks_taken", finished)
    assert service.counted("hooks_taken") == finished


def test_a_run_whose_place_was_taken_follows_who_has_it_now(
    desk: Desk, services: Callable[..., Service], url: str
) -> None:
    service = services(hold=True)
    desk.inputs(JOBS)
    ledger = ("--ledger", url, "--serverless-url", service.url)
    command = ("run", "prompts.jsonl", "--endpoint", "ep1", "--output", "results.jsonl", *ledger, *FAST)
    run = desk.start(*command)
    for _ in looks():  # what was under way when it is stopped would be uncertain for a minute
        shown = desk.call("status", "--json", "--ledger", url).summary
        if shown and shown[0]["jobs"]["outstanding"] == JOBS:
            break
    beside = desk.start("serve", *ledger, *FAST)
    beside.until_said("ep1: served by process")
    run.signal(signal.SIGSTOP)
    beside.until_said("ep1: served by this process")
    run.signal(signal.SIGCONT)
    run.until_said("has taken this ledger over; nothing more is sent from here")
    service.change(hold=False)
    followed = run.ended()
    assert followed.exit_code == 0, followed
    assert sorted(desk.ids()) == sorted(f"row-{n}" for n in range(JOBS))
    assert service.counted("accepted") == JOBS
    beside.signal(signal.SIGTERM)
    assert beside.ended().exit_code == 0
