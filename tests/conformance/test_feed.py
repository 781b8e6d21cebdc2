"""The feed: every event once, in order, whoever commits it and however slow its reader is."""

import anyio
import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.claim_queue import ClaimLine
from orchestrator.ledger.reports.event_feed import LOOK_S, PAGE, FeedEvent
from tests.factories import TTL_US, S
from tests.ledger.ledgers import OpenLedger, a_run, brought_to
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def read(ledger: Ledger, into: list[FeedEvent], *, place: int = 0, slowly_s: float = 0.0) -> None:
    async for page in ledger.reports.feed.after(place):
        assert len(page) <= PAGE
        into += page
        await anyio.sleep(slowly_s)


async def test_the_feed_tells_what_was_and_what_comes_in_order_and_at_once(open_file: OpenLedger) -> None:
    async with open_file() as ledger, anyio.create_task_group() as group:
        await a_run(ledger, 3)
        await brought_to(ledger, State.OUTSTANDING, EPOCH_AT, job=1)
        found: list[FeedEvent] = []
        group.start_soon(lambda: read(ledger, found))
        await anyio.sleep(1)
        assert [(each.job, each.event.value, each.run) for each in found] == [(1, "claimed", 1), (1, "accepted", 1)]
        await brought_to(ledger, State.SUBMITTING, EPOCH_AT + S, job=2)
        await anyio.sleep(LOOK_S / 2)
        assert [(each.job, each.event.value) for each in found[2:]] == [(2, "claimed")]
        assert found[-1].place == await ledger.reports.feed.end()
        group.cancel_scope.cancel()


async def test_whoever_leaves_off_goes_on_where_that_was(open_file: OpenLedger) -> None:
    async with open_file() as ledger, anyio.create_task_group() as group:
        await a_run(ledger, 2)
        await brought_to(ledger, State.OUTSTANDING, EPOCH_AT, job=1)
        place = 0
        async for page in ledger.reports.feed.after(0):
            place = page[0].place
            break
        found: list[FeedEvent] = []
        group.start_soon(lambda: read(ledger, found, place=place))
        await anyio.sleep(1)
        assert [each.event.value for each in found] == ["accepted"]
        group.cancel_scope.cancel()


async def test_a_slow_reader_skips_nothing_and_gets_a_page_at_a_time(open_file: OpenLedger) -> None:
    async with open_file() as ledger, anyio.create_task_group() as group:
        await a_run(ledger, 3 * PAGE)
        found: list[FeedEvent] = []
        group.start_soon(lambda: read(ledger, found, slowly_s=5))
        for _ in range(10):
            await ledger.jobs.claims.take(ClaimLine(1, endpoint=1, by_retry=False, ttl_of=lambda _: TTL_US), most=400)
            await anyio.sleep(1)
        await anyio.sleep(60)
        places = [each.place for each in found]
        assert places == sorted(set(places))
        assert sorted(each.job for each in found) == list(range(1, 3 * PAGE + 1))
        group.cancel_scope.cancel()


async def test_what_another_process_commits_is_told_within_a_quarter_of_a_second(open_file: OpenLedger) -> None:
    async with open_file() as ledger, open_file() as other, anyio.create_task_group() as group:
        await a_run(ledger, 2)
        found: list[FeedEvent] = []
        group.start_soon(lambda: read(other, found))
        await anyio.sleep(10)
        await brought_to(ledger, State.SUBMITTING, EPOCH_AT, job=1)
        await anyio.sleep(LOOK_S + 0.1)
        assert [(each.job, each.event.value) for each in found] == [(1, "claimed")]
        group.cancel_scope.cancel()


async def test_all_readers_are_told_the_same_in_the_same_order_whoever_commits(open_file: OpenLedger) -> None:
    async with open_file() as ledger, open_file() as other, anyio.create_task_group() as group:
        await a_run(ledger, 60)
        fast, slow, abroad = list[FeedEvent](), list[FeedEvent](), list[FeedEvent]()
        group.start_soon(lambda: read(ledger, fast))
        group.start_soon(lambda: read(ledger, slow, slowly_s=3))
        group.start_soon(lambda: read(other, abroad))
        for n in range(1, 61):
            await brought_to((ledger, other)[n % 2], State.OUTSTANDING, EPOCH_AT + n, job=n)
            await anyio.sleep(0.1)
        await anyio.sleep(10)
        assert [(each.job, each.event.value) for each in fast] == [
            (n, event) for n in range(1, 61) for event in ("claimed", "accepted")
        ]
        assert fast == slow == abroad
        group.cancel_scope.cancel()
