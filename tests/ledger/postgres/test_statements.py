"""What is executed for many rows at once, where it could differ from one after the other."""

from typing import Any

import pytest
from sqlalchemy import bindparam, func, insert, select, update

from orchestrator.ledger.expressions import greatest, least
from orchestrator.ledger.postgres.database import ServerDatabase
from orchestrator.ledger.schema.job_tables import counts, outcomes
from orchestrator.ledger.statements import Guarded, Many, insert_new, placeholder, replace_into, upsert
from tests.ledger.postgres.conftest import OpenDatabase

pytestmark = pytest.mark.anyio

COLUMNS = ("run_id", "name", "n")
ADD = Many(upsert(counts, lambda new: {"n": counts.c.n + new.n}), *COLUMNS)
NEW = Many(insert_new(counts), *COLUMNS)
REPLACE = Many(replace_into(counts), *COLUMNS)
RAISE = Many(update(counts).where(counts.c.name == bindparam("b_name")).values(n=counts.c.n + bindparam("b_n")))
GUARDED = Guarded(
    update(counts).values(n=placeholder(2)).where(counts.c.name == placeholder(0), counts.c.n == placeholder(1))
)


def row(name: str, n: int) -> dict[str, Any]:
    return {"run_id": 1, "name": name, "n": n}


async def done(database: ServerDatabase, *given: tuple[Many, list[dict[str, Any]]]) -> dict[str, int]:
    """All counts after these."""
    async with database.writing() as connection:
        for many, rows in given:
            await many.execute(connection, rows)
        return dict(map(tuple, await connection.execute(select(counts.c.name, counts.c.n))))


async def test_rows_about_the_same_row_are_taken_one_after_the_other(connected: OpenDatabase) -> None:
    twice = [row("a", 1), row("b", 10), row("a", 2)]
    raised = [{"b_name": "a", "b_n": 100}, {"b_name": "a", "b_n": 200}]
    assert await done(connected(), (ADD, twice), (RAISE, raised)) == {"a": 303, "b": 10}


async def test_many_rows_are_taken_at_once_and_none_is_nothing(connected: OpenDatabase) -> None:
    database = connected()
    assert await done(database, (NEW, [row("a", 1), row("b", 2), row("a", 3)]), (ADD, [])) == {"a": 1, "b": 2}
    assert await done(database, (NEW, [row("b", 9), row("c", 3)]), (REPLACE, [row("a", 7)])) == {"a": 7, "b": 2, "c": 3}
    assert await done(database, (RAISE, [{"b_name": "a", "b_n": 1}, {"b_name": "c", "b_n": 2}])) == {
        "a": 8,
        "b": 2,
        "c": 5,
    }


@pytest.mark.parametrize("output", [None, b"\0"])
async def test_what_is_unknown_in_all_rows_is_so_in_each_whichever_comes_first(
    connected: OpenDatabase, output: bytes | None
) -> None:
    columns = ("message", "margin_us", "output", "job_id")
    many, order = (
        Many(insert(outcomes), *columns),
        select(*(outcomes.c[name] for name in columns)).order_by(outcomes.c.job_id),
    )
    given = [(None, None, output, job) for job in (1, 2, 3)] + [("", 0, b"x", job) for job in (4, 5)]
    async with connected().writing() as connection:
        for rows in (given[:2], given[2:4], given[4:]):
            await many.execute(connection, [dict(zip(columns, each, strict=True)) for each in rows])
        assert [tuple(each) for each in await connection.execute(order)] == given


async def test_a_guarded_row_says_whether_it_was_as_it_had_to_be(connected: OpenDatabase) -> None:
    database = connected()
    await done(database, (NEW, [row(name, 1) for name in "abc"]))
    async with database.writing() as connection:
        assert await GUARDED.execute(connection, [("c", 1, 5), ("a", 2, 6), ("b", 1, 7)]) == [True, False, True]
        assert await GUARDED.execute(connection, []) == []
    assert await done(database) == {"a": 1, "b": 7, "c": 5}


async def test_an_extreme_of_nothing_known_is_unknown(connected: OpenDatabase) -> None:
    question = select(greatest(1, 2, 3), least(2, 1), greatest(1, func.nullif(1, 1)))
    assert await connected().asked(question, None, lambda found: tuple(found.one())) == (3, 1, None)


async def test_a_parameter_without_a_type_is_a_mistake_that_is_told(connected: OpenDatabase) -> None:
    untyped = Many(update(counts).where(counts.c.n == 1).values(name=func.coalesce(bindparam("b_name"), "x")))
    with pytest.raises(AssertionError, match="the type of b_name has to be said"):
        await done(connected(), (untyped, [{"b_name": "a"}]))
