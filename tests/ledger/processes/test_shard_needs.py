"""Which shards need an owner: those where something is to be done, and no others."""

from typing import Any

import pytest

from orchestrator.core.ownership.shard_bids import Pair
from orchestrator.ledger.processes.shard_needs import shard_needs
from tests.ledger.processes.conftest import FIRST, Connect

pytestmark = pytest.mark.anyio

HOME, OTHER, NEVER = 1, 2, 3
OVER = """
INSERT INTO endpoints (service_url, endpoint) VALUES ('u', 'home'), ('u', 'other'), ('u', 'never');
INSERT INTO runs (name, endpoint_id, source, settings, created_at, intake_accepted) VALUES ('r', 1, '-', '', 0, 1);
INSERT INTO run_endpoints (run_id, endpoint_id) VALUES (1, 2);
INSERT INTO counts (run_id, name, n) VALUES (1, 'succeeded', 7), (1, 'queued', 0);
"""
"""A run of two endpoints that is over."""


async def needed(driver: Any) -> set[int]:
    return {place.endpoint for place in (await shard_needs(driver)).places if place.is_needed}


async def over(connect: Connect) -> Any:
    """A connection to a ledger with that run."""
    driver = await connect(FIRST.mark)
    await driver.execute(OVER)
    return driver


async def test_a_run_that_is_over_needs_nobody(connect: Connect) -> None:
    driver = await over(connect)
    assert await needed(driver) == set()
    needs = await shard_needs(driver)
    assert [(place.endpoint, place.shard, place.name) for place in needs.places] == [
        (HOME, HOME, "home"),
        (OTHER, OTHER, "other"),
        (NEVER, NEVER, "never"),
    ]
    assert needs.pairs == [Pair(HOME, OTHER)]


@pytest.mark.parametrize(
    ("what", "endpoints"),
    [
        ("UPDATE counts SET n = 1 WHERE name = 'queued'", {HOME, OTHER}),
        ("UPDATE counts SET n = 1 WHERE name = 'queued'; UPDATE runs SET is_released = 1", set()),
        ("UPDATE counts SET n = 1 WHERE name = 'queued'; UPDATE runs SET intake_accepted = 0", set()),
        ("INSERT INTO counts VALUES (1, 'outstanding', 1); UPDATE runs SET is_released = 1", {HOME, OTHER}),
        (
            "INSERT INTO commands (asked_at, asked_by, action, argument, run_id) VALUES (0, '', 'x', '', 1)",
            {HOME, OTHER},
        ),
        (
            "INSERT INTO submissions (id, job_id, attempt, sent_at, ttl_at, cancel_at, endpoint_id) VALUES (1,1,0,0,0,0,3)",
            {NEVER},
        ),
        ("INSERT INTO loans VALUES (3, '', 0, 0, 0, 0, NULL, NULL, 0)", {NEVER}),
        ("INSERT INTO batches (run_id, endpoint_id, stage, made_at) VALUES (1, 3, 'creating', 0)", {NEVER}),
    ],
)
async def test_what_is_to_be_done_somewhere_needs_an_owner_there(
    connect: Connect, what: str, endpoints: set[int]
) -> None:
    driver = await over(connect)
    await driver.execute(what)
    assert await needed(driver) == endpoints


async def test_a_shard_is_needed_where_one_of_its_endpoints_is(connect: Connect) -> None:
    driver = await over(connect)
    await driver.execute("UPDATE endpoints SET shard_id = 1 WHERE id = 3")
    await driver.execute("INSERT INTO loans VALUES (3, '', 0, 0, 0, 0, NULL, NULL, 0)")
    needs = await shard_needs(driver)
    assert needs.shards == {HOME}
    assert [place.name for place in needs.of(HOME)] == ["home", "never"]
