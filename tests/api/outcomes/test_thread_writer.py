"""For how long what is written to a store is waited for, once somebody wants to leave."""

import anyio
import anyio.lowlevel
import pytest

from orchestrator.api.outcomes.thread_writer import STOP_S, until_given_up
from orchestrator.errors import StorageError

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

PLACE = "s3://bucket/out.jsonl"


async def test_after_a_stop_it_is_given_up_a_while_later_which_is_told(caplog: pytest.LogCaptureFixture) -> None:
    stop = anyio.Event()
    async with until_given_up(PLACE, stop) as given_up:
        await anyio.sleep(1_000)
        assert not caplog.messages
        stop.set()
        await anyio.sleep(STOP_S - 1)
        assert caplog.messages == [f"{PLACE}: it has 30 s to be there, as a stop was asked for"]
        assert not given_up.is_set()
        await anyio.sleep(2)
        assert given_up.is_set()


async def test_what_is_cancelled_is_given_up_at_once_and_says_nothing_else() -> None:
    found: list[bool] = []
    with anyio.CancelScope() as scope:
        async with until_given_up(PLACE, None) as given_up:
            scope.cancel()
            with anyio.CancelScope(shield=True):  # as a thread that is waited for
                await anyio.sleep(1)
                found.append(given_up.is_set())
            raise StorageError("cannot write: it was not there in time")
    assert scope.cancelled_caught
    assert found == [True]


async def test_what_goes_wrong_meanwhile_is_raised_as_it_is() -> None:
    with pytest.raises(StorageError, match="access is denied"):
        async with until_given_up(PLACE, None):
            raise StorageError("access is denied")
