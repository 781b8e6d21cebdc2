"""What a sequence will give next is said right also while the server notes that it will give its next 32 numbers."""

from contextlib import AsyncExitStack
from typing import Any

import anyio
import asyncpg
import pytest

from orchestrator.ledger.postgres.tables import following_number

pytestmark = pytest.mark.anyio

EVENTS = "events_id_seq"
LOOKS = 40_000
COUNT = """
CREATE FUNCTION too_large(looks int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    found int := 0;
    said bigint;
BEGIN
    FOR look IN 1..looks LOOP
        said := ({question});
        IF nextval('{sequence}') < said THEN found := found + 1; END IF;
    END LOOP;
    RETURN found;
END $$
"""
"""Counts how often the question was told a number that was still to be given, of so many times."""


async def test_no_number_comes_that_was_said_to_be_gone(url: str) -> None:
    async with AsyncExitStack() as stack:
        looking, drawing = [await stack.enter_async_context(connection(url)) for _ in range(2)]
        await looking.execute(COUNT.format(question=following_number(EVENTS), sequence=EVENTS))
        found: list[int] = []

        are_drawn = anyio.Event()

        async def draw() -> None:
            while not found:
                await drawing.execute(f"SELECT nextval('{EVENTS}') FROM generate_series(1, 4000) OFFSET 4000")
                are_drawn.set()

        async with anyio.create_task_group() as group:
            group.start_soon(draw)
            await are_drawn.wait()  # both are at it from the first look on
            found.append(await looking.fetchval("SELECT too_large($1)", LOOKS))
        assert found == [0]


def connection(url: str) -> Any:
    return asyncpg.create_pool(url, min_size=1, max_size=1)


@pytest.mark.parametrize(
    ("before", "following"),
    [("SELECT 1", 1), (f"SELECT nextval('{EVENTS}')", 2), (f"SELECT setval('{EVENTS}', 7, false)", 7)],
)
async def test_it_goes_on_after_the_last_one_that_was_taken(url: str, before: str, following: int) -> None:
    async with connection(url) as server:
        await server.execute(before)
        assert await server.fetchval(following_number(EVENTS)) == following
        assert await server.fetchval(f"SELECT nextval('{EVENTS}')") == following
