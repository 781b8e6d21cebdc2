"""Who waits for a job, and who is to hear of a stop."""

import anyio
import pytest

from orchestrator.emulator.job_api.worker_polls import StopLine, TakePoll, TakeQueues

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def test_the_longest_waiting_poll_of_an_endpoint_is_first() -> None:
    queues = TakeQueues()
    first, second, elsewhere = TakePoll("w1", 1), TakePoll("w2", 1), TakePoll("w3", 1)
    queues.join("a", first)
    queues.join("a", second)
    queues.join("b", elsewhere)
    assert [queues.waiting(each) for each in "abc"] == [(first, second), (elsewhere,), ()]
    queues.leave("a", first)
    queues.leave("a", first)
    queues.leave("c", first)
    assert queues.waiting("a") == (second,)


def test_the_polls_of_a_worker_that_is_to_go_are_answered_and_no_others() -> None:
    queues = TakeQueues()
    going, staying = TakePoll("w1", 1), TakePoll("w2", 1)
    queues.join("a", going)
    queues.join("a", staying)
    queues.release("a", "w1")
    assert (going.answered.is_set(), staying.answered.is_set()) == (True, False)
    assert queues.waiting("a") == (staying,)
    assert going.executions == ()


async def test_a_stop_is_heard_when_the_worker_asks_again() -> None:
    line = StopLine()
    heard = line.tell("j1")
    assert line.tell("j1") is not heard
    assert await line.listen() == ("j1",)
    assert not heard.is_set()
    line.asked()
    assert heard.is_set()


async def test_a_job_that_is_run_again_is_not_to_be_stopped() -> None:
    line = StopLine()
    line.tell("j1")
    line.untell("j1")
    line.untell("j2")
    async with anyio.create_task_group() as tasks:

        async def ring() -> None:
            await anyio.sleep(1)
            line.ring()

        tasks.start_soon(ring)
        assert await line.listen() == ()
