"""The service's own Batch as a pure world: drafts, their workers, ends, limits, pages, and what faults do to them."""

from collections import Counter
from typing import Any

import msgspec
import pytest

from orchestrator.emulator.batches.batch_records import AppendReply, BatchStatus, RequestRecord
from orchestrator.emulator.batches.batch_rules import BatchOrder, BatchRules
from orchestrator.emulator.batches.batches import Batches
from orchestrator.emulator.contract.answers import ServiceRefusal
from orchestrator.emulator.contract.faults import Faults
from orchestrator.emulator.jobs.endpoint_table import batch_pool
from orchestrator.emulator.jobs.jobs import JobExecution, ServiceStatus, WorkerResult
from orchestrator.emulator.jobs.world import World
from orchestrator.errors import UsageError
from orchestrator.units import SECOND_US
from tests.emulator.execution_counts import ExecutionCounts
from tests.emulator.worlds import EP, MINUTE, NO_FAULTS, SUCCESS, T0, submit, world

POOL = batch_pool(EP)
LATER = T0 + MINUTE
"""When the workers of a batch begin that was finalized at once."""


def row(n: int) -> bytes:
    return b'{"n":%d}' % n


def rows(count: int, first: int = 0) -> list[bytes]:
    return [row(n) for n in range(first, first + count)]


class Subject:
    """Batches, and who works on them."""

    def __init__(self, faults: Faults = NO_FAULTS, *, seed: int = 1, **rules: Any) -> None:
        self.counts = ExecutionCounts()
        self.world: World = world(faults, observer=self.counts, seed=seed)
        self.batches = Batches(self.world, BatchRules(**rules))

    def begun(self, count: int = 3, *, endpoint: str = EP) -> str:
        """A batch whose requests are queued."""
        batch = self.batches.create(endpoint, rows(count), T0).id
        self.batches.finalize(endpoint, batch, T0)
        self.world.step(LATER)
        return batch

    def take(self, now: int = LATER) -> JobExecution:
        execution = self.world.executions.take(POOL, "w1", now)
        assert execution is not None
        return execution

    def finish(self, now: int = LATER, result: WorkerResult = SUCCESS) -> None:
        assert self.world.executions.done(self.take(now), result, now)

    def counted(self, batch: str, now: int = LATER) -> tuple[BatchStatus, int, int, int, int]:
        """The status; how many requests, in progress, completed, failed."""
        found = self.batches.get(EP, batch, now)
        counts = (found.request_total, found.request_in_progress, found.request_completed, found.request_failed)
        return found.status, *counts

    def page(self, batch: str, now: int = LATER) -> tuple[RequestRecord, ...]:
        return self.batches.page(EP, batch, 0, None, now).requests

    def statuses(self, batch: str, now: int = LATER) -> Counter[ServiceStatus]:
        return Counter(each.status for each in self.page(batch, now))


def refused(status: int, call: Any, *arguments: Any) -> None:
    with pytest.raises(ServiceRefusal) as refusal:
        call(*arguments)
    assert refusal.value.status == status


# --- drafts


def test_a_batch_is_a_draft_until_it_is_finalized() -> None:
    subject = Subject()
    batch = subject.batches.create(EP, [], T0)
    assert (batch.id[:6], batch.status) == ("batch_", BatchStatus.DRAFT)
    subject.batches.append(EP, batch.id, rows(2), T0)
    subject.batches.append(EP, batch.id, rows(1, 2), T0)
    assert subject.counted(batch.id, T0) == (BatchStatus.DRAFT, 3, 0, 0, 0)
    assert subject.world.next_due() is None, "nothing of a draft is executed"
    assert subject.batches.finalize(EP, batch.id, T0).status is BatchStatus.FINALIZED


def test_a_request_can_be_taken_out_of_a_draft() -> None:
    subject = Subject()
    batch = subject.batches.create(EP, rows(3), T0).id
    gone = subject.page(batch, T0)[1].id
    subject.batches.remove(EP, batch, gone, T0)
    assert gone not in [each.id for each in subject.page(batch, T0)]
    refused(404, subject.batches.remove, EP, batch, gone, T0)


def test_what_is_no_draft_any_more_is_locked() -> None:
    subject = Subject()
    batch = subject.begun()
    refused(409, subject.batches.append, EP, batch, rows(1), LATER)
    refused(409, subject.batches.remove, EP, batch, subject.page(batch)[0].id, LATER)
    refused(409, subject.batches.finalize, EP, batch, LATER)
    assert subject.counted(batch) == (BatchStatus.FINALIZED, 3, 0, 0, 0)


def test_a_batch_without_requests_is_not_finalized() -> None:
    subject = Subject()
    refused(400, subject.batches.finalize, EP, subject.batches.create(EP, [], T0).id, T0)


def test_a_batch_is_unknown_at_another_endpoint_and_under_another_id() -> None:
    subject = Subject()
    batch = subject.batches.create(EP, rows(1), T0).id
    refused(404, subject.batches.get, "other", batch, T0)
    refused(404, subject.batches.get, EP, "batch_none", T0)
    assert subject.batches.newest("other", 0, None, T0).total == 0


def test_a_name_is_shown_once_it_is_given() -> None:
    subject = Subject()
    batch = subject.batches.create(EP, [], T0).id
    plain = msgspec.json.decode(msgspec.json.encode(subject.batches.get(EP, batch, T0)))
    assert plain == {
        "id": batch,
        "endpointId": EP,
        "status": "DRAFT",
        "requestTotal": 0,
        "requestInProgress": 0,
        "requestCompleted": 0,
        "requestFailed": 0,
        "createdAt": T0 // 1000,
    }
    assert subject.batches.rename(EP, batch, "captions", T0).name == "captions"
    assert subject.batches.newest(EP, 0, None, T0).batches[0].name == "captions"


# --- execution


def test_its_requests_wait_for_the_delay_and_are_executed_by_workers_of_its_own() -> None:
    subject = Subject(delay_s=90.0)
    batch = subject.batches.create(EP, rows(2), T0).id
    subject.batches.finalize(EP, batch, T0)
    assert subject.world.next_due() == T0 + 90 * SECOND_US
    assert subject.world.step(T0 + 90 * SECOND_US - 1).queued == ()
    assert subject.world.executions.take(POOL, "w1", T0) is None
    assert subject.world.step(T0 + 90 * SECOND_US).queued == (POOL,)
    assert subject.world.executions.take(EP, "w1", LATER) is None, "the workers of the endpoint have none of it"
    submit(subject.world)
    execution = subject.take(T0 + 90 * SECOND_US)
    assert (execution.endpoint, execution.input) == (POOL, row(0))
    assert subject.world.endpoints.queued(EP) == 1, "nor do those of a batch take a job"


def test_how_far_a_batch_is_tells_by_its_counts_alone() -> None:
    subject = Subject()
    batch = subject.begun(3)
    subject.take()
    assert subject.counted(batch) == (BatchStatus.FINALIZED, 3, 1, 0, 0)
    subject.finish(result=WorkerResult(error="out of memory"))
    subject.finish()
    assert subject.counted(batch) == (BatchStatus.FINALIZED, 3, 1, 1, 1)


def test_a_batch_that_is_done_stays_finalized() -> None:
    subject = Subject()
    batch = subject.begun(2)
    subject.finish()
    subject.finish()
    assert subject.counted(batch) == (BatchStatus.FINALIZED, 2, 0, 2, 0)
    assert subject.batches.cancel(EP, batch, LATER).status is BatchStatus.FINALIZED, "there is nothing to cancel"


def test_a_request_that_takes_too_long_has_failed() -> None:
    subject = Subject()
    batch = subject.begun(1)
    subject.take()
    subject.world.step(LATER + 600 * SECOND_US)
    assert subject.statuses(batch, LATER + 600 * SECOND_US) == {ServiceStatus.TIMED_OUT: 1}
    assert subject.counted(batch, LATER + 600 * SECOND_US) == (BatchStatus.FINALIZED, 1, 0, 0, 1)


def test_what_its_executions_took_is_counted_apart() -> None:
    subject = Subject()
    subject.begun(1)
    execution = subject.take()
    subject.world.executions.done(execution, SUCCESS, LATER + 7 * SECOND_US)
    assert subject.world.endpoints.state(POOL).executed_us == 7 * SECOND_US
    assert subject.world.endpoints.state(EP).executed_us == 0


# --- pages


def test_a_page_shows_results_and_times() -> None:
    subject = Subject()
    batch = subject.begun(3)
    subject.world.executions.done(subject.take(), SUCCESS, LATER + SECOND_US)
    subject.finish(result=WorkerResult(error="no"))
    done, failed, queued = msgspec.json.decode(msgspec.json.encode(subject.page(batch)))
    assert done.pop("id").startswith("req_")
    assert done == {
        "status": "COMPLETED",
        "output": {"ok": 1},
        "startedAt": "2023-11-14T22:14:20.000Z",
        "completedAt": "2023-11-14T22:14:21.000Z",
    }
    assert (failed["status"], failed["error"]) == ("FAILED", "no")
    assert queued.keys() == {"id", "status"}


def test_pages_follow_each_other() -> None:
    subject = Subject(page_max=4)
    batch = subject.begun(10)
    pages = [subject.batches.page(EP, batch, offset, None, LATER) for offset in (0, 4, 8, 12)]
    assert [(page.offset, page.limit, page.total, page.has_more, len(page.requests)) for page in pages] == [
        (0, 4, 10, True, 4),
        (4, 4, 10, True, 4),
        (8, 4, 10, False, 2),
        (12, 4, 10, False, 0),
    ]
    assert len({each.id for page in pages for each in page.requests}) == 10
    assert len(subject.batches.page(EP, batch, 0, 3, LATER).requests) == 3
    assert len(subject.batches.page(EP, batch, 0, 1000, LATER).requests) == 4, "no page is larger"


def test_batches_are_listed_newest_first() -> None:
    subject = Subject(page_max=2)
    made = [subject.batches.create(EP, [], T0 + n).id for n in range(3)]
    first, second = subject.batches.newest(EP, 0, None, T0), subject.batches.newest(EP, 2, None, T0)
    assert [each.id for each in (*first.batches, *second.batches)] == made[::-1]
    assert (first.has_more, second.has_more, second.total) == (True, False, 3)


def test_requests_are_shown_in_the_order_in_which_they_were_appended() -> None:
    subject = Subject()
    batch = subject.batches.create(EP, rows(2), T0).id
    subject.batches.append(EP, batch, rows(2, 2), T0)
    subject.batches.finalize(EP, batch, T0)
    subject.world.step(LATER)
    ids = [each.id for each in subject.page(batch)]
    assert [subject.take().job_id for _ in range(4)] == ids
    assert [subject.world.table.by_id[each].input for each in ids] == rows(4)


def test_by_status_failures_come_first_and_places_change() -> None:
    subject = Subject(order=BatchOrder.BY_STATUS)
    batch = subject.begun(4)
    before = [each.id for each in subject.page(batch)]
    subject.finish()
    subject.finish(result=WorkerResult(error="no"))
    subject.take()
    assert [each.status for each in subject.page(batch)] == ["FAILED", "IN_PROGRESS", "IN_QUEUE", "COMPLETED"]
    assert [each.id for each in subject.page(batch)] == [before[place] for place in (1, 2, 3, 0)]


def test_in_a_random_order_places_tell_nothing_and_keep_so() -> None:
    subject = Subject(order=BatchOrder.RANDOM)
    batch = subject.batches.create(EP, rows(20), T0).id
    subject.batches.append(EP, batch, rows(20, 20), T0)
    subject.batches.finalize(EP, batch, T0)
    subject.world.step(LATER)
    ids = [each.id for each in subject.page(batch)]
    shown = [subject.world.table.by_id[each].input for each in ids]
    assert shown != rows(40)
    assert sorted(shown) == sorted(rows(40))
    assert [each.id for each in subject.page(batch)] == ids


def test_an_append_is_answered_with_ids_if_it_is_to_be() -> None:
    subject = Subject(append_ids=True)
    batch = subject.batches.create(EP, rows(1), T0).id
    reply = subject.batches.append(EP, batch, rows(2, 1), T0)
    assert isinstance(reply, AppendReply)
    assert [each.id for each in reply.requests] == [each.id for each in subject.page(batch, T0)[1:]]


def test_the_pages_of_a_draft_may_be_kept_back() -> None:
    subject = Subject(has_draft_pages=False)
    batch = subject.batches.create(EP, rows(1), T0).id
    refused(409, subject.batches.page, EP, batch, 0, None, T0)
    subject.batches.finalize(EP, batch, T0)
    assert len(subject.page(batch, T0)) == 1


# --- cancelling


def test_a_draft_that_is_cancelled_is_over_and_costs_nothing() -> None:
    subject = Subject()
    batch = subject.batches.create(EP, rows(3), T0).id
    assert subject.batches.cancel(EP, batch, T0).status is BatchStatus.CANCELLED
    subject.world.step(LATER)
    assert subject.statuses(batch) == {ServiceStatus.CANCELLED: 3}
    assert subject.counts.executed.total() == 0
    refused(409, subject.batches.append, EP, batch, rows(1), LATER)


def test_what_waits_is_cancelled_and_what_runs_ends_and_is_paid() -> None:
    subject = Subject()
    batch = subject.begun(5)
    subject.finish()
    running = subject.take()
    assert subject.batches.cancel(EP, batch, LATER).status is BatchStatus.FINALIZED, "it drains"
    assert subject.world.executions.take(POOL, "w2", LATER) is None
    assert subject.counted(batch) == (BatchStatus.FINALIZED, 5, 1, 1, 0)
    assert subject.batches.cancel(EP, batch, LATER).status is BatchStatus.FINALIZED, "twice is the same as once"
    assert subject.world.executions.done(running, SUCCESS, LATER + MINUTE)
    assert subject.counted(batch, LATER + MINUTE) == (BatchStatus.CANCELLED, 5, 0, 2, 0)
    assert subject.statuses(batch) == {ServiceStatus.COMPLETED: 2, ServiceStatus.CANCELLED: 3}
    assert subject.counts.executed.total() == 2


def test_a_batch_that_has_not_begun_is_cancelled_at_once() -> None:
    subject = Subject()
    batch = subject.batches.create(EP, rows(2), T0).id
    subject.batches.finalize(EP, batch, T0)
    assert subject.batches.cancel(EP, batch, T0).status is BatchStatus.CANCELLED
    assert subject.world.step(LATER).queued == ()
    assert subject.world.executions.take(POOL, "w1", LATER) is None


# --- limits


def test_an_endpoint_has_so_many_active_batches() -> None:
    subject = Subject(active_max=2)
    drafts = [subject.batches.create(EP, rows(1), T0).id for _ in range(4)]
    for draft in drafts[:2]:
        subject.batches.finalize(EP, draft, T0)
    refused(400, subject.batches.finalize, EP, drafts[2], T0)
    subject.world.step(LATER)
    subject.finish()
    subject.batches.finalize(EP, drafts[2], LATER)
    refused(400, subject.batches.finalize, EP, drafts[3], LATER)
    other = subject.batches.create("other", rows(1), T0).id
    subject.batches.finalize("other", other, LATER)


def test_drafts_may_count_as_active() -> None:
    subject = Subject(active_max=2, has_active_drafts=True, limit_status=429)
    draft = subject.batches.create(EP, rows(1), T0).id
    subject.batches.create(EP, [], T0)
    refused(429, subject.batches.create, EP, [], T0)
    subject.batches.finalize(EP, draft, T0)
    subject.batches.cancel(EP, draft, T0)
    subject.batches.create(EP, [], T0)


def test_a_batch_has_so_many_requests_and_an_append_is_taken_whole_or_not() -> None:
    subject = Subject(requests_max=3)
    refused(400, subject.batches.create, EP, rows(4), T0)
    batch = subject.batches.create(EP, rows(2), T0).id
    refused(400, subject.batches.append, EP, batch, rows(2), T0)
    assert subject.counted(batch, T0)[1] == 2
    subject.batches.append(EP, batch, rows(1), T0)
    assert subject.counted(batch, T0)[1] == 3


def test_an_endpoint_has_so_many_requests_queued() -> None:
    subject = Subject(queued_max=5)
    first, second = (subject.batches.create(EP, rows(3), T0).id for _ in range(2))
    subject.batches.finalize(EP, first, T0)
    refused(400, subject.batches.finalize, EP, second, T0)
    subject.world.step(LATER)
    subject.take()
    subject.batches.finalize(EP, second, LATER)


@pytest.mark.parametrize("rules", [{"workers": 0}, {"page_max": 0}, {"delay_s": -1.0}, {"price_share": 1.5}])
def test_rules_that_make_no_sense_are_refused(rules: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        BatchRules(**rules)


# --- what is kept


def test_a_batch_is_forgotten_some_time_after_all_of_it_has_ended() -> None:
    subject = Subject(retention_s=3600.0)
    batch = subject.begun(2)
    subject.finish()
    end = LATER + MINUTE
    subject.finish(end)
    gone = end + 60 * MINUTE
    subject.world.step(end)
    assert subject.world.next_due() == gone
    assert len(subject.page(batch, gone - 1)) == 2
    refused(404, subject.batches.get, EP, batch, gone)
    subject.world.step(gone)
    assert subject.batches.newest(EP, 0, None, gone).total == 0
    assert subject.world.table.by_id == {}
    assert subject.world.endpoints.state(POOL).unread == 0


def test_results_that_nobody_has_read_are_counted_when_they_are_forgotten() -> None:
    subject = Subject(retention_s=60.0)
    subject.begun(1)
    subject.finish()
    subject.world.step(LATER)
    subject.world.step(LATER + MINUTE)
    assert subject.world.endpoints.state(POOL).unread == 1


def test_a_fault_keeps_a_batch_for_less_than_it_should() -> None:
    subject = Subject(Faults(short_retention=1.0, kept_share=0.5), retention_s=60.0)
    batch = subject.begun(1)
    subject.finish()
    subject.world.step(LATER)
    refused(404, subject.batches.get, EP, batch, LATER + MINUTE // 2)


def test_with_its_endpoint_a_batch_and_its_workers_are_gone() -> None:
    subject = Subject()
    batch = subject.begun()
    running = subject.take()
    subject.batches.close(EP)
    refused(404, subject.batches.get, EP, batch, LATER)
    assert not subject.world.executions.done(running, SUCCESS, LATER)
    assert POOL not in subject.world.endpoints.names()


# --- faults


def test_a_batch_can_be_finalized_for_ever() -> None:
    subject = Subject(Faults(stuck_batch=1.0))
    batch = subject.begun()
    subject.world.step(LATER + 10_000 * MINUTE)
    assert subject.counted(batch, LATER + 10_000 * MINUTE) == (BatchStatus.FINALIZED, 3, 0, 0, 0)
    assert subject.batches.cancel(EP, batch, LATER).status is BatchStatus.CANCELLED


@pytest.mark.parametrize("seed", range(4))
def test_a_batch_can_fail_before_its_end(seed: int) -> None:
    subject = Subject(Faults(failed_batch=1.0), seed=seed)
    batch = subject.begun(4)
    while (execution := subject.world.executions.take(POOL, "w1", LATER)) is not None:
        subject.world.executions.done(execution, SUCCESS, LATER)
        subject.world.step(LATER)
    status, total, _, completed, failed = subject.counted(batch)
    assert (status, total, failed) == (BatchStatus.FAILED, 4, 0)
    assert completed < 4
    assert subject.statuses(batch)[ServiceStatus.CANCELLED] == 4 - completed


def test_an_append_can_be_taken_twice_as_far_as_there_is_room() -> None:
    subject = Subject(Faults(repeated_append=1.0), append_ids=True, requests_max=5)
    batch = subject.batches.create(EP, [], T0).id
    reply = subject.batches.append(EP, batch, rows(2), T0)
    assert isinstance(reply, AppendReply)
    assert [each.id for each in reply.requests] == [each.id for each in subject.page(batch, T0)[:2]]
    assert subject.counted(batch, T0)[1] == 4
    subject.batches.append(EP, batch, rows(1), T0)
    assert subject.counted(batch, T0)[1] == 5


def test_a_batch_can_lose_requests_that_it_has_taken() -> None:
    subject = Subject(Faults(lost_job=1.0), append_ids=True)
    batch = subject.batches.create(EP, [], T0).id
    reply = subject.batches.append(EP, batch, rows(2), T0)
    assert isinstance(reply, AppendReply)
    assert len(reply.requests) == 2
    assert subject.counted(batch, T0)[1] == 0


def test_requests_can_wait_for_ever() -> None:
    subject = Subject(Faults(stuck_request=1.0))
    batch = subject.begun()
    assert subject.world.executions.take(POOL, "w1", LATER) is None
    assert subject.statuses(batch, LATER + 10_000 * MINUTE) == {ServiceStatus.IN_QUEUE: 3}
    subject.batches.cancel(EP, batch, LATER)
    assert subject.statuses(batch) == {ServiceStatus.CANCELLED: 3}


def test_a_request_can_be_executed_twice() -> None:
    subject = Subject(Faults(duplicate_dispatch=1.0))
    batch = subject.begun(1)
    first = subject.take()
    subject.world.executions.take(POOL, "w2", LATER)
    subject.world.executions.done(first, SUCCESS, LATER)
    assert (subject.counts.executed.total(), subject.counted(batch)[3]) == (2, 1)


def test_a_question_can_find_that_all_batches_are_forgotten() -> None:
    subject = Subject()
    batch, draft = subject.begun(), subject.batches.create(EP, [], T0).id
    subject.world.dice.faults = Faults(amnesia=1.0)
    refused(404, subject.batches.page, EP, batch, 0, None, LATER)
    subject.world.dice.faults = NO_FAULTS
    refused(404, subject.batches.get, EP, draft, LATER)
