"""What the latest executions at an endpoint tell of the next."""

from orchestrator.core.planning.forecast import TimesSource
from orchestrator.core.planning.observed_times import ObservedExecution, experience
from tests.factories import S


def an_execution(
    sent_s: float, *, delay_s: float = 0, seconds: float = 10, executions: int = 1, worker: str | None = None
) -> ObservedExecution:
    return ObservedExecution(
        sent_at=round((1_000_000 + sent_s) * S),
        delay_ms=round(delay_s * 1_000),
        execution_ms=round(seconds * 1_000),
        executions=executions,
        worker=worker,
    )


def test_of_a_few_nothing_is_concluded() -> None:
    assert experience([]) is None
    assert experience([an_execution(0), an_execution(1)]) is None


def test_as_many_workers_as_were_at_work_at_once() -> None:
    found = experience([an_execution(n, seconds=3.5) for n in range(10)], TimesSource.PROBE)
    assert found is not None
    assert (found.workers.most, found.were_all_busy) == (4, False)
    assert found.times.executions_us == (3_500_000,) * 10
    assert found.times.source is TimesSource.PROBE


def test_a_worker_that_has_one_after_the_other_is_one() -> None:
    """The request of each second one took 0.2 s, in which its worker seems to have two."""
    each = [
        an_execution(0.5 * n - 0.2 * (n % 2), seconds=0.5, worker=f"w{worker}")
        for worker in range(8)
        for n in range(20)
    ]
    found = experience(each)
    assert found is not None
    assert found.workers.most == 8


def test_a_worker_that_surely_has_several_at_once_counts_as_several() -> None:
    each = [an_execution(10 * n, worker=worker) for worker in ("w1", "w2") for n in range(5) for _ in range(3)]
    found = experience([*each, an_execution(0.1, worker="w3"), an_execution(45, worker=None)])
    assert found is not None
    assert found.workers.most == 7


def test_where_jobs_waited_all_workers_were_busy() -> None:
    found = experience([an_execution(0, delay_s=5 * n, seconds=10) for n in range(10)])
    assert found is not None
    assert (found.workers.most, found.were_all_busy) == (2, True)


def test_executions_that_followed_others_count_but_nobody_knows_when_they_began() -> None:
    again = [an_execution(0.1 * n, executions=3) for n in range(5)]
    found = experience([*(an_execution(12 * n) for n in range(5)), *again])
    assert found is not None
    assert (found.workers.most, found.times.per_job) == (1, 2.0)
    found = experience(again)
    assert found is not None
    assert found.workers.most == 5


def test_who_came_first_after_a_while_waited_for_a_worker_to_start() -> None:
    nights = [an_execution(3_600 * night + n, delay_s=60 + 3 * night - n) for night in range(3) for n in range(3)]
    found = experience(nights)
    assert found is not None
    assert found.workers.start_us == 63 * S
