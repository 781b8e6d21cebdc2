"""Forms that act: what is shown before, that they act once, and on no more than was confirmed. Nobody is at work."""

import re
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.pipelines.pipeline import Notify
from orchestrator.dashboard.actions.all_actions import ROUTES
from orchestrator.ledger.actions.action_rows import Act, Ended, SubjectKind, Verb
from orchestrator.ledger.actions.asker import ActionWay, Asker
from orchestrator.ledger.commands.command_types import Action
from orchestrator.settings.monitoring.dashboard_settings import DashboardSettings, PayloadChoice
from tests.dashboard.actions.forms import actions_in, confirmed, failed_run, fields_of
from tests.dashboard.harness import VIEWER, dashboard
from tests.ledger.ledgers import a_run, brought_to, opened
from tests.ledger.pipelines import a_pipeline, applied
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_without_confirmation_a_form_only_shows_what_it_would_do(tmp_path: Path) -> None:
    path, clock = tmp_path / "l.db", VirtualClock()
    async with opened(path, clock=clock) as ledger:
        run = await failed_run(ledger)
    await anyio.sleep(10)
    async with dashboard(path, clock=clock) as site:
        page = await site.post(f"/runs/{run.id}/retry", {"where": "class=failed", "back": "/runs/1/jobs?where=a b"})
        assert page.status == 200
        assert "Each of these 3 jobs is executed, and paid, once more at least." in page.text
        assert f"orchestrator retry --ledger {path} night --where class=failed" in page.text
        assert "Nobody works on this ledger" in page.text
        assert fields_of(page)["count"] == "3"
        assert fields_of(page)["back"] == "/runs/1", "a path with a space in it is none of ours"
    assert await actions_in(path, clock) == []


async def test_a_form_acts_once_in_two_tabs_at_once_and_after_a_restart_of_the_dashboard(tmp_path: Path) -> None:
    path, clock = tmp_path / "l.db", VirtualClock()
    async with opened(path, clock=clock) as ledger:
        run = await a_run(ledger, 2, name="night")
    async with dashboard(path, clock=clock) as site:
        fields = fields_of(await site.post(f"/runs/{run.id}/pause", {"back": "/runs?x=1"}))
        answers = []

        async def click() -> None:
            answers.append(await site.post(f"/runs/{run.id}/pause", fields))

        async with anyio.create_task_group() as tabs:
            for _ in range(3):
                tabs.start_soon(click)
        assert [(each.status, each.headers["location"]) for each in answers] == [(303, "/runs?x=1&did=1")] * 3
    async with dashboard(path, clock=clock) as site:
        late = await site.post(f"/runs/{run.id}/pause", fields)
        assert late.headers["location"] == "/runs?x=1&did=1"
        shown = await site.get("/actions/1")
        assert "pause, run night" in shown.text
        assert "done : nothing more of it is sent" in shown.text
    [action] = await actions_in(path, clock)
    assert (action.way, action.form, action.verb) == (ActionWay.PAGE, fields["form"], "pause")
    async with opened(path, clock=clock) as ledger:
        assert (await ledger.runs.controls(run.id)).pause
        assert (await ledger.commands.asked()).later == {1}


async def test_another_count_than_was_confirmed_asks_again_and_does_nothing(tmp_path: Path) -> None:
    path, clock = tmp_path / "l.db", VirtualClock()
    async with opened(path, clock=clock) as ledger:
        run = await failed_run(ledger)
    await anyio.sleep(10)
    async with dashboard(path, clock=clock) as site:
        fields = fields_of(await site.post(f"/runs/{run.id}/retry"))
        again = await site.post(f"/runs/{run.id}/retry", fields | {"count": "2"})
        assert again.status == 409
        assert "It concerns 3 jobs by now, and 2 were confirmed" in again.text
        assert fields_of(again)["count"] == "3"
        assert fields_of(again)["form"] != fields["form"]
        assert (await site.post(f"/runs/{run.id}/retry", {"confirmed": "1", "count": "3"})).status == 409
        assert await actions_in(path, clock) == []
        done = await site.post(f"/runs/{run.id}/retry", fields_of(again))
        assert done.status == 303
        asked = await site.json("/actions/1")
        assert (asked["asked"], asked["state"]) == (3, "waiting")
        assert "the next process that works on this ledger" in asked["outcome"]
    async with opened(path, clock=clock) as ledger:
        [command] = await ledger.commands.pending()
        assert command.action == Action.RETRY


async def test_what_fails_after_the_count_is_not_among_those_that_were_confirmed(tmp_path: Path) -> None:
    path, clock = tmp_path / "l.db", VirtualClock()
    async with opened(path, clock=clock) as ledger:
        run = await failed_run(ledger)
    await anyio.sleep(10)
    async with dashboard(path, clock=clock) as site:
        fields = fields_of(await site.post(f"/runs/{run.id}/retry"))
        await anyio.sleep(5)
        async with opened(path, clock=clock) as ledger:
            await brought_to(ledger, State.FAILED, ledger.now(), job=4)
        assert (await site.post(f"/runs/{run.id}/retry", fields)).status == 303
    [action] = await actions_in(path, clock)
    assert action.where.startswith("ended<=2026-")


async def test_a_run_is_cancelled_only_by_who_types_its_name(tmp_path: Path) -> None:
    path, clock = tmp_path / "l.db", VirtualClock()
    async with opened(path, clock=clock) as ledger:
        run = await failed_run(ledger)
    async with dashboard(path, clock=clock) as site:
        assert (await confirmed(site, f"/runs/{run.id}/cancel")).status == 409
        wrong = await confirmed(site, f"/runs/{run.id}/cancel", typed="nigh")
        assert wrong.status == 409
        assert "Type night to confirm it." in wrong.text
        assert await actions_in(path, clock) == []
        assert (await confirmed(site, f"/runs/{run.id}/cancel", typed="night")).status == 303
    async with opened(path, clock=clock) as ledger:
        assert (await ledger.runs.controls(run.id)).cancel


async def test_fewer_than_were_confirmed_are_cancelled_without_another_question_and_more_are_not(
    tmp_path: Path,
) -> None:
    path, clock = tmp_path / "l.db", VirtualClock()
    async with opened(path, clock=clock) as ledger:
        run = await a_run(ledger, 3, name="night")
    async with dashboard(path, clock=clock) as site:
        fields = fields_of(await site.post(f"/runs/{run.id}/cancel-jobs", {"where": "line<=2"}))
        assert fields["count"] == "2"
        assert (await site.post(f"/runs/{run.id}/cancel-jobs", fields | {"count": "1"})).status == 409
        assert (await site.post(f"/runs/{run.id}/cancel-jobs", fields | {"count": "3"})).status == 303
    [action] = await actions_in(path, clock)
    assert (action.where, action.asked_n) == ("line<=2", 2)


async def test_what_is_refused_is_told_where_it_was_asked_and_stands_among_the_actions(tmp_path: Path) -> None:
    path, clock = tmp_path / "l.db", VirtualClock()
    async with opened(path, clock=clock) as ledger:
        run = await a_run(ledger, 1, name="night", endpoint="local:a.py:f")
    async with dashboard(path, clock=clock) as site:
        done = await confirmed(site, f"/runs/{run.id}/limits", run="5/10")
        assert done.headers["location"] == "/runs?did=1"
        shown = await site.json("/actions/1")
        assert (shown["state"], shown["verb"], shown["kind"]) == ("refused", "limits-set", "endpoint")
        assert "night runs a function of yours" in shown["outcome"]
        assert "refused" in (await site.get("/actions")).text


async def test_who_is_signed_in_stands_there_and_where_to_go_back_is_ours(tmp_path: Path) -> None:
    path, clock = tmp_path / "l.db", VirtualClock()
    async with opened(path, clock=clock) as ledger:
        run = await a_run(ledger, 1, name="night")
    async with dashboard(path, clock=clock) as site:
        for back in ("https://evil.example/", "//evil.example", "/\\evil.example", "javascript:1", ""):
            done = await confirmed(site, f"/runs/{run.id}/pause", {"back": back})
            assert done.headers["location"].startswith(f"/runs/{run.id}?did=")
        done = await confirmed(site, f"/runs/{run.id}/pause", {"back": "/runs?did=3&x=1"})
        assert done.headers["location"] == "/runs?x=1&did=6"


async def test_there_is_nothing_to_be_asked_of_what_is_not_there(tmp_path: Path) -> None:
    path, clock = tmp_path / "l.db", VirtualClock()
    async with opened(path, clock=clock):
        pass
    async with dashboard(path, clock=clock) as site:
        for route in ROUTES:
            asked = re.sub(r"\{\w+(:int)?\}", "9", route.path)
            assert (await site.post(asked)).status == 404, asked
            assert (await site.get(asked)).status in (404, 405), asked


async def test_what_was_begun_and_cut_off_says_that_it_is_not_known(tmp_path: Path) -> None:
    path, clock = tmp_path / "l.db", VirtualClock()
    async with opened(path, clock=clock) as ledger:
        act = Act(verb=Verb.SEND_AGAIN, subject=SubjectKind.MESSAGE, number=1, name="ops")
        await ledger.actions.note(Asker(way=ActionWay.PAGE, by="anna", form="f" * 20), act, None)
    async with dashboard(path, clock=clock) as site:
        assert (await site.json("/actions/1"))["state"] == "running"
        await anyio.sleep(61)
        assert (await site.json("/actions/1"))["state"] == "unknown"
        assert "it is not known what came of it" in (await site.get("/actions")).text


ASKED = [re.sub(r"\{\w+(:int)?\}", "1", route.path) for route in ROUTES]


async def test_no_form_acts_for_viewers_or_strangers_or_from_elsewhere_or_where_all_is_read_only(
    tmp_path: Path,
) -> None:
    path, clock = tmp_path / "l.db", VirtualClock()
    async with opened(path, clock=clock) as ledger:
        await failed_run(ledger)
        await applied(ledger, now=ledger.now())
    sent = {"confirmed": "1", "form": "f" * 20, "count": "1", "typed": "night", "note": "why", "scope": ""}
    for person, expected in ((VIEWER, 403), (None, 401)):
        async with dashboard(path, clock=clock, person=person) as site:
            for asked in ASKED:
                assert (await site.post(asked, sent)).status == expected, asked
                assert (await site.post(asked)).status == expected, asked
    async with dashboard(path, DashboardSettings(read_only=True), clock=clock) as site:
        for asked in ASKED:
            assert (await site.post(asked, sent)).status in (403, 404, 405), asked
    async with dashboard(path, clock=clock) as site:
        for asked in ASKED:
            assert (await site.post(asked, sent, **{"Sec-Fetch-Site": "cross-site"})).status == 403, asked
            assert (await site.get(asked)).status in (404, 405), asked
    assert await actions_in(path, clock) == []


async def test_what_came_of_it_is_shown_where_it_was_asked_from(tmp_path: Path) -> None:
    path, clock = tmp_path / "l.db", VirtualClock()
    async with opened(path, clock=clock) as ledger:
        run = await failed_run(ledger)
    await anyio.sleep(10)
    async with dashboard(path, clock=clock) as site:
        done = await confirmed(site, f"/runs/{run.id}/retry", {"back": "/actions?what=retry"})
        there = done.headers["location"]
        assert there == "/actions?what=retry&did=1"
        assert "retry, run night: waiting : it is carried out by the next process" in (await site.get(there)).text
        live = await site.get(there + "&live=did,list")
        assert live.html.count("<section") == 2
        assert "retry, run night: waiting" in live.text
        for other in ("2", "x", "9" * 30, ""):
            assert "run night: waiting" not in (await site.get(f"/actions?did={other}")).text


async def test_the_list_of_actions_is_narrowed_goes_on_and_is_json_too(tmp_path: Path) -> None:
    path, clock = tmp_path / "l.db", VirtualClock()
    async with opened(path, clock=clock) as ledger:
        act = Act(verb=Verb.FIRE, subject=SubjectKind.PIPELINE, number=1, name="<b>p</b>")
        for number in range(60):
            who = Asker(way=ActionWay.PAGE, by="anna" if number else "ben")
            await ledger.actions.note(who, act, Ended("it was made", done=1))
    async with dashboard(path, clock=clock) as site:
        page = await site.get("/actions")
        assert "<b>p</b>" not in page.html
        assert page.html.count("<tr") == 51
        assert "/actions?after=11" in page.html
        assert (await site.get("/actions?after=11")).html.count("<tr") == 11
        found = await site.json("/actions?by=ben")
        assert [each["id"] for each in found["actions"]] == [1]
        assert found["actions"][0]["path"] == "/pipelines/1"
        assert (await site.json("/actions?what=cancel"))["actions"] == []
        assert "Nothing was asked that is like that" in (await site.get("/actions?what=cancel")).text
        assert (await site.get("/actions?after=x")).status == 400
        for forged in ("x", "r-1", f"p{'9' * 30}"):
            assert (await site.get(f"/messages?after={forged}")).status == 400
        assert (await site.get("/actions/99")).status == 404


async def test_a_message_is_sent_again_once_and_it_is_told_where_there_is_none(tmp_path: Path) -> None:
    path, clock = tmp_path / "l.db", VirtualClock()
    async with opened(path, clock=clock) as ledger:
        telling = replace(a_pipeline(), notify=Notify(url="https://hooks.example/x"))
        of = await applied(ledger, telling, now=ledger.now())
        assert await ledger.flows.pipelines.pause(of, now=ledger.now(), until=None, note="x")
        assert await ledger.flows.outbox.count_owed() == 1
    async with dashboard(path, clock=clock) as site:
        fields = fields_of(await site.post("/messages/p1/resend", {"back": "/actions"}))
        for _ in range(2):
            done = await site.post("/messages/p1/resend", fields)
            assert done.headers["location"] == "/actions?did=1"
        action = await site.json("/actions/1")
        assert (action["state"], action["done"], action["subject"]) == ("done", 1, "p1")
        for wrong in ("r99", "x9"):
            assert (await site.post(f"/messages/{wrong}/resend")).status == 404


async def test_who_asks_from_a_part_of_a_list_is_back_there(tmp_path: Path) -> None:
    path, clock = tmp_path / "l.db", VirtualClock()
    async with opened(path, clock=clock) as ledger:
        run = await failed_run(ledger)
    await anyio.sleep(10)
    async with dashboard(path, clock=clock) as site:
        listed = await site.get(f'/runs/{run.id}/jobs?where=state=failed id~"1"&did=9')
        [back] = set(re.findall(r'name="back" value="([^"]*)"', listed.html))
        assert back == "/runs/1/jobs?where=state%3Dfailed+id%7E%221%22".replace("%7E", "~")
        done = await confirmed(site, f"/runs/{run.id}/retry", {"back": back})
        assert done.headers["location"] == f"{back}&did=1"


async def test_what_is_hidden_is_found_out_by_no_count_and_shown_by_no_sample_or_action(tmp_path: Path) -> None:
    path, clock = tmp_path / "l.db", VirtualClock()
    async with opened(path, clock=clock) as ledger:
        run = await failed_run(ledger)
        act = Act(verb="retry", subject=SubjectKind.RUN, number=run.id, name="night", where='input.email="a@b"')
        await ledger.actions.note(Asker(way=ActionWay.COMMAND), act, Ended("done"))
    await anyio.sleep(10)
    async with dashboard(path, DashboardSettings(payloads=PayloadChoice.HIDE), clock=clock) as site:
        for where in ('input.email="a@b"', 'error~"bad"'):
            for verb in ("retry", "cancel-jobs"):
                asked = await site.post(f"/runs/{run.id}/{verb}", {"where": where})
                assert asked.status == 400
                assert "hidden here" in asked.text
        assert (await site.post(f"/runs/{run.id}/retry", {"where": "class=failed"})).status == 200
        for page in ("/actions", "/actions/1"):
            assert "a@b" not in (await site.get(page)).html
            assert "a filter of what is hidden here" in (await site.get(page)).text
    async with dashboard(path, clock=clock) as site:
        assert "a@b" in (await site.get("/actions")).html
    async with dashboard(path, DashboardSettings(redact=("input.email",)), clock=clock, person=VIEWER) as site:
        assert "a@b" not in (await site.get("/actions")).html
