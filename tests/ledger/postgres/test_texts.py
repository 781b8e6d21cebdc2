"""A text comes as it is, and what a server takes for none with U+FFFD, by each way in which it can get there."""

import pytest
from sqlalchemy import insert, select

from orchestrator.ledger.postgres.connection import server_driver
from orchestrator.ledger.postgres.texts import array_of_numbers, array_of_texts, storable_json
from orchestrator.ledger.schema.job_tables import counts
from orchestrator.ledger.statements import TEXTS, TEXTS_IN_BATCH, batch_of
from tests.ledger.postgres.conftest import OpenDatabase
from tests.ledger.postgres.test_statements import ADD, GUARDED, row

pytestmark = pytest.mark.anyio

GIVEN = ("plain", "a\0b", "\0é", "\ud83d", "\U0001f4a5\udca5", r"\u0000")
KEPT = ["plain", "a\ufffdb", "\ufffdé", "\ufffd", "\U0001f4a5\ufffd", r"\u0000"]


async def test_a_text_comes_alone_or_among_many_or_to_be_compared(connected: OpenDatabase) -> None:
    database = connected()
    async with database.writing() as connection:
        await connection.execute(insert(counts), [row(text, n) for n, text in enumerate(GIVEN)])
        names = (await connection.execute(select(counts.c.name).order_by(counts.c.n))).scalars().all()
        assert names == KEPT
        await ADD.execute(connection, [row(text, 100) for text in GIVEN])
        await ADD.execute(connection, [row("a\0b", 1), row("a\0b", 1)])  # one after the other
        assert await GUARDED.execute(connection, [("\ud83d", 103, 7)]) == [True]
        found = dict(map(tuple, await connection.execute(select(counts.c.name, counts.c.n))))
        assert (len(found), found["a\ufffdb"], found["\ufffd"]) == (len(GIVEN), 103, 7)


async def test_so_does_one_of_a_batch(connected: OpenDatabase) -> None:
    given = ["a\0b", r"a\u0000b", "\\\0", "\U0001f4a5"]
    async with connected().writing() as connection:
        found = (await connection.execute(select(TEXTS.c.value), batch_of(given))).scalars().all()
        assert list(found) == ["a\ufffdb", r"a\u0000b", "\\\ufffd", "\U0001f4a5"]
        await connection.execute(insert(counts), row("a\0b", 1))
        of_batch = select(counts.c.n).where(counts.c.name.in_(TEXTS_IN_BATCH))
        assert (await connection.execute(of_batch, batch_of(given))).scalars().all() == [1]


AWKWARD = [
    "",
    "NULL",
    "null",
    "{}",
    "a,b",
    '"',
    "\\",
    '\\"',
    '","',
    " a ",
    "\n\r\t\x01",
    "é\U0001f4a5",
    r"\0",
    "'",
    "$1",
]
ARRAYS = "SELECT $1::TEXT::TEXT[], $2::TEXT::BIGINT[], $3::TEXT::DOUBLE PRECISION[]"


@pytest.mark.parametrize(
    ("texts", "whole", "real"),
    [
        (["a,b\0"] * 3, [7] * 3, [0.5] * 3),
        ([None] * 3, [None] * 3, [None] * 3),
        (["a", "", "a"], [1, None, 1], [1.0, 2.0, 1.0]),
    ],
)
async def test_what_is_the_same_in_all_rows_is_there_in_each(
    connected: OpenDatabase, texts: list[str | None], whole: list[int | None], real: list[float | None]
) -> None:
    given = array_of_texts(texts), array_of_numbers(whole), array_of_numbers(real)
    kept = [text and text.replace("\0", "\ufffd") for text in texts]
    async with connected().writing() as connection:
        assert await server_driver(connection).fetchrow(ARRAYS, *given) == (kept, whole, real)


@pytest.mark.parametrize("known", [(), (None,), (None, None)])
async def test_what_stands_in_arrays_comes_back_as_it_was(connected: OpenDatabase, known: tuple[None, ...]) -> None:
    """Also where one is missing."""
    texts, whole, real = [*AWKWARD, *known], [0, -1, 2**63 - 1, -(2**63), *known], [0.1, 1e300, -5e-324, 3, *known]
    given = array_of_texts(texts), array_of_numbers(whole), array_of_numbers(real)
    async with connected().writing() as connection:
        assert await server_driver(connection).fetchrow(ARRAYS, *given) == (texts, whole, real)
        kept, *_ = await server_driver(connection).fetchrow(ARRAYS, array_of_texts([*GIVEN, *known]), "{1,NULL}", "{}")
        assert kept == [*KEPT, *known]


def test_nothing_is_an_empty_array_and_a_truth_a_number() -> None:
    assert (array_of_texts([]), array_of_numbers([]), array_of_numbers([True, False])) == ("{}", "{}", "{1, 0}")


def test_only_an_escape_is_one() -> None:
    assert storable_json(rb'["\u0000\u0000\\u0000\\\u0000"]'.decode()) == '["\ufffd\ufffd\\\\u0000\\\\\ufffd"]'
