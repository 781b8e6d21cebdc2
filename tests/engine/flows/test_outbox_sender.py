"""What is written down, and told to who asks, of a message that nobody took."""

from dataclasses import dataclass, field

import pytest

from orchestrator.client.notify.delivery import Delivery, failed
from orchestrator.engine.flows.outbox_sender import OutboxSender
from orchestrator.ledger.flows.outbox import Message
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@dataclass
class Outbox:
    """Notes why nobody took it. A receiver is owed something whenever it is asked."""

    problems: list[str] = field(default_factory=list)

    async def receivers_due(self, _now: int) -> list[tuple[int, str]]:
        return [(1, "ops")]

    async def next_due(self, _now: int) -> int | None:
        return None

    async def undelivered(self, _number: int, problem: str, *, due_at: int | None) -> None:
        assert due_at is not None
        self.problems.append(problem)


def sender(outbox: Outbox, clock: VirtualClock) -> OutboxSender[Message]:
    async def send(_message: object) -> Delivery:
        return failed("page.py ended with exit code 1: no such user hunter2-hunter2")

    return OutboxSender(
        outbox=outbox,  # type: ignore[arg-type]  # as far as it is used
        send=send,
        name_of=lambda _: "night",
        clock=clock,
        scrub=lambda text: text.replace(b"hunter2-hunter2", b"[env:PASSWORD]"),
        warn=outbox.problems.append,
    )


async def test_once_it_has_ended_who_looked_before_begins_nothing_more() -> None:
    """As where a process is interrupted while it looks for what is owed at the end of its work."""
    courier = sender(Outbox(), VirtualClock())
    async with courier.working():
        pass
    await courier.until_idle()


async def test_a_secret_that_a_receiver_repeats_is_neither_kept_nor_told() -> None:
    outbox, clock = Outbox(), VirtualClock()
    courier = sender(outbox, clock)
    message = Message(
        id=1,
        body=b"{}",
        owed_at=clock.now(),
        due_at=clock.now(),
        tries=0,
        taken_at=None,
        given_up_at=None,
        problem="",
        target="ops",
    )
    came = await courier.send_once(message)
    assert came.problem == "page.py ended with exit code 1: no such user [env:PASSWORD]"
    assert len(outbox.problems) == 2
    assert all(came.problem in each for each in outbox.problems)
