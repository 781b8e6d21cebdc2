"""What is owed is listed, a page at a time, and sent again when somebody asks, by one process only and under its id."""

import json
from functools import partial
from pathlib import Path

import anyio
import pytest

from orchestrator.api.messages.message_lists import message_page, messages_list
from orchestrator.api.messages.message_resend import resend_message, resend_now
from orchestrator.api.messages.outside_sender import OutsideSender
from orchestrator.client.http.posts import post_notification
from orchestrator.core.pipelines.run_messages import RunNews
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.monitoring.notify_targets import NotifyTarget, TargetKind
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import HOUR_US, SECOND_US
from orchestrator.views.flows import MessageStanding
from tests.api.flows.test_notifications import Receiver
from tests.dashboard.harness import dashboard
from tests.ledger.ledgers import a_run, opened
from tests.simulation.clock import EPOCH_AT, VirtualClock
from tests.simulation.database import async_creator

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

URL = "https://hooks.example/T0/very-secret"
TARGETS = {"ops": NotifyTarget(kind=TargetKind.WEBHOOK, url="env:HOOK")}
CONNECTION = ConnectionSettings(targets=TARGETS)


def around(clock: VirtualClock, receiver: Receiver, **environ: str) -> Dependencies:
    hook = partial(post_notification, transport=receiver)
    given = {"HOOK": URL, **environ}
    return Dependencies(clock=clock, environ=given, post_hook=hook, connect=async_creator)


async def owing(ledger: Ledger, problem: str | None = "hooks.example answered 500") -> None:
    """A run has a message for ops, that could not be told."""
    run = await a_run(ledger, 2, name="night <b>", settings=RunSettings(notify="ops:stalled"))
    await ledger.flows.run_outbox.begin_episode(run.id, RunNews.STALLED, "the service is away")
    if problem is not None:
        await ledger.flows.run_outbox.undelivered(1, problem, due_at=None)


async def test_a_message_is_sent_again_by_who_asks_where_nobody_works_and_under_the_same_id(tmp_path: Path) -> None:
    clock, receiver, path = VirtualClock(), Receiver(503), tmp_path / "l.db"
    async with opened(path, clock=clock) as ledger:
        await owing(ledger)
        [line] = (await message_page(ledger, None, most=9)).lines
        assert (line.id, line.target, line.standing) == ("r1", "ops", MessageStanding.GIVEN_UP)
    came = await resend_now(path, "r1", CONNECTION, around(clock, receiver))
    assert (came.messages, came.taken, came.problems) == (1, 0, ("hooks.example answered 503",))
    await anyio.sleep(30)
    came = await resend_now(path, None, CONNECTION, around(clock, receiver))
    assert (came.messages, came.taken, came.by) == (1, 1, None)
    assert len(receiver.got) == 2
    assert len(set(receiver.ids)) == 1
    page = await messages_list(path, most=9, dependencies=around(clock, receiver))
    assert [(line.standing, line.tries, line.problem) for line in page.lines] == [(MessageStanding.TAKEN, 3, "")]
    assert page.targets == ()
    again = await resend_now(path, "r1", CONNECTION, around(clock, receiver))
    assert again.taken == 1, "one that was taken, too"
    assert len(set(receiver.ids)) == 1
    for wrong in ("r2", "p1", "x", "1"):
        with pytest.raises(UsageError, match="there is no message"):
            await resend_message(path, wrong, around(clock, receiver))


async def test_what_waits_and_was_not_tried_is_sent_too_where_nobody_works(tmp_path: Path) -> None:
    clock, receiver, path = VirtualClock(), Receiver(), tmp_path / "l.db"
    async with opened(path, clock=clock) as ledger:
        await owing(ledger, None)
    came = await resend_now(path, None, CONNECTION, around(clock, receiver))
    assert (came.messages, came.taken, len(receiver.got)) == (1, 1, 1)
    came = await resend_now(path, None, CONNECTION, around(clock, receiver))
    assert (came.messages, came.taken, len(receiver.got)) == (0, None, 1)


async def test_what_is_sent_from_outside_has_the_time_of_the_ledger(tmp_path: Path) -> None:
    clock, receiver = VirtualClock(), Receiver()
    fast = VirtualClock(epoch_at=EPOCH_AT + HOUR_US)
    async with opened(tmp_path / "l.db", clock=clock) as ledger:
        await owing(ledger, None)
        sender = await OutsideSender.of(ledger, CONNECTION, around(fast, receiver))
        await sender.of_runs(await ledger.flows.run_outbox.page(None, 9, waiting=True))
        now_s = ledger.now() // SECOND_US
    [sent] = receiver.got
    assert abs(int(sent.headers["webhook-timestamp"]) - now_s) < 2


async def test_pages_go_on_where_the_one_before_ended_and_say_what_waits(tmp_path: Path) -> None:
    clock, path = VirtualClock(), tmp_path / "l.db"
    async with opened(path, clock=clock) as ledger:
        run = await a_run(ledger, 2, name="night", settings=RunSettings(notify="ops\nmail"))
        for news in (RunNews.STALLED, RunNews.SPEND, RunNews.WILL_MISS):
            await anyio.sleep(1)
            await ledger.flows.run_outbox.begin_episode(run.id, news, "why")
        seen: list[str] = []
        after: str | None = None
        while True:
            page = await message_page(ledger, None, most=3, after=after)
            seen += [line.id for line in page.lines]
            after = page.after
            if after is None:
                break
        everything = [line.id for line in (await message_page(ledger, None, most=99)).lines]
        assert seen == everything
        assert len(seen) == len(set(seen)) == 8, "that it has started, too"
        assert {(target.target, target.owed) for target in page.targets} == {("ops", 4), ("mail", 4)}
        await ledger.flows.run_outbox.delivered(1)
        waiting = await message_page(ledger, None, most=99, waiting=True)
        assert len(waiting.lines) == 7
        with pytest.raises(UsageError, match="is no place"):
            await message_page(ledger, None, most=3, after="p1'; DROP")


async def test_the_page_shows_what_is_owed_and_its_form_sends_again(tmp_path: Path) -> None:
    clock, path = VirtualClock(), tmp_path / "l.db"
    async with opened(path, clock=clock) as ledger:
        await owing(ledger)
    async with dashboard(path, clock=clock) as site:
        page = await site.get("/messages")
        assert page.status == 200
        assert "night &lt;b&gt;" in page.html
        assert "hooks.example answered 500" in page.text
        assert "given up" in page.text
        as_json = json.loads((await site.get("/messages", Accept="application/json")).text)
        assert as_json["lines"][0]["id"] == "r1"
        asked = await site.post("/messages/r1/resend", {})
        assert f"orchestrator notify resend --ledger {path} r1" in asked.text
        assert (await site.get("/messages?after=nonsense")).status == 400
    async with opened(path, clock=clock) as ledger:
        [line] = (await message_page(ledger, None, most=9)).lines
        assert line.standing is MessageStanding.GIVEN_UP, "it was not confirmed"
