"""The faults of the wire reach every interface: jobs, pods, `/v1` and GraphQL; in-process, on virtual time."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest

from orchestrator.emulator.account.pods import PodSettings
from orchestrator.emulator.contract.answers import ConnectionCut, ErrorBodies
from orchestrator.emulator.contract.callers import Quota
from orchestrator.emulator.contract.faults import Fault, Faults, Spell
from orchestrator.emulator.server import Emulator
from orchestrator.units import SECOND_US
from tests.emulator.emulators import KEY, emulator
from tests.emulator.interfaces import ACCOUNT, EVERY, Interface
from tests.emulator.pod_service import GPU

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

every_interface = pytest.mark.parametrize("interface", EVERY, ids=lambda interface: interface.name)
every_account_interface = pytest.mark.parametrize("interface", ACCOUNT, ids=lambda interface: interface.name)


def always(fault: Fault) -> Faults:
    rates: dict[str, Any] = {fault.value: 1.0}
    return Faults(**rates)


@asynccontextmanager
async def talking_to(subject: Emulator) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(subject.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://emulator", headers=KEY) as http:
        yield http


@every_interface
@pytest.mark.parametrize("fault", [Fault.LOST_REQUEST, Fault.RESET, Fault.SWALLOWED_REQUEST])
async def test_a_request_that_is_lost_does_nothing(interface: Interface, fault: Fault) -> None:
    subject = emulator(faults=always(fault))
    async with talking_to(subject) as http:
        with pytest.raises(ConnectionCut) as cut:
            await interface.change_it(subject, http)
    assert (interface.made(subject), cut.value.reset) == (0, fault is Fault.RESET)
    assert cut.value.is_silent is (fault is Fault.SWALLOWED_REQUEST)
    assert subject.dice.counts()[fault] == 1


@every_interface
async def test_a_change_whose_answer_is_lost_is_made_and_a_question_never_loses_its_answer(
    interface: Interface,
) -> None:
    subject = emulator(faults=Faults(lost_answer=1.0))
    async with talking_to(subject) as http:
        with pytest.raises(ConnectionCut):
            await interface.change_it(subject, http)
        assert (await interface.ask_it(http)).status_code == 200
    assert (interface.made(subject), subject.dice.counts()[Fault.LOST_ANSWER]) == (1, 1)


@every_interface
async def test_a_change_that_is_refused_does_not_count_as_one(interface: Interface) -> None:
    subject = emulator(faults=Faults(lost_answer=1.0), keys=("another",))
    async with talking_to(subject) as http:
        assert (await interface.change_it(subject, http)).status_code == 401
    assert subject.dice.counts()[Fault.LOST_ANSWER] == 0


@every_interface
@pytest.mark.parametrize(
    ("fault", "status", "made"),
    [
        (Fault.SERVER_ERROR, 500, 0),
        (Fault.SERVER_ERROR_AFTER, 500, 1),
        (Fault.UNAUTHORIZED, 401, 0),
        (Fault.THROTTLED, 429, 0),
    ],
)
async def test_an_error_that_nothing_has_caused_has_the_interfaces_own_form(
    interface: Interface, fault: Fault, status: int, made: int
) -> None:
    """Before the change, or after it; the key is looked at first."""
    subject = emulator(faults=always(fault))
    async with talking_to(subject) as http:
        answer = await interface.change_it(subject, http)
        assert (await http.post("/graphql", headers={"authorization": ""})).status_code == 401
    assert answer.status_code == status
    assert interface.sentence(answer) == "internal server error" if status == 500 else interface.sentence(answer)
    # contract of pods, Limits 5
    assert ("retry-after" in answer.headers) is (status == 429 and interface.name in ("pods", "rest_v2"))
    assert (interface.made(subject), subject.dice.counts()[fault]) == (made, 1)


@every_interface
async def test_an_answer_can_lose_its_body_or_half_of_it_and_still_look_whole(interface: Interface) -> None:
    subject = emulator()
    async with talking_to(subject) as http:
        whole = await interface.ask_it(http)
        subject.dice.faults = Faults(half_answer=1.0)
        half = await interface.ask_it(http)
        subject.dice.faults = Faults(empty_answer=1.0)
        empty = await interface.ask_it(http)
        subject.dice.faults = Faults(marked_answer=1.0)
        marked = await interface.ask_it(http)
    assert (half.status_code, half.content) == (200, whole.content[: len(whole.content) // 2])
    assert half.headers["content-length"] == str(len(half.content))
    assert (empty.status_code, empty.content) == (200, b"")
    assert (marked.status_code, marked.content) == (200, b"\xef\xbb\xbf" + whole.content)


@every_interface
async def test_an_answer_can_be_a_bomb(interface: Interface) -> None:
    subject = emulator(faults=Faults(bomb_answer=1.0, bomb_bytes=5e6))
    async with talking_to(subject) as http:
        answer = await interface.ask_it(http)  # httpx knows zstd only where a further package is installed
    assert (answer.status_code, answer.headers["content-encoding"]) == (200, "zstd")
    unpacked = zstd.decompress(answer.content) if len(answer.content) < 5e6 else answer.content
    assert (len(unpacked) > 5e6, unpacked[:10]) == (True, b'{"output":')
    assert subject.dice.counts()[Fault.BOMB_ANSWER] == 1


@every_interface
async def test_a_spell_lets_a_fault_strike_for_a_while_and_then_no_more(interface: Interface) -> None:
    maintenance = Spell(from_s=60, for_s=40, not_json=1.0)
    subject = emulator(faults=Faults(spells=(maintenance,)))
    seen = {}
    async with anyio.create_task_group() as tasks, talking_to(subject) as http:
        await tasks.start(subject.serve)
        for at_s in (59, 61, 99, 101):
            await anyio.sleep_until(at_s)
            seen[at_s] = "html" in (await interface.ask_it(http)).headers["content-type"]
        tasks.cancel_scope.cancel()
    assert seen == {59: False, 61: True, 99: True, 101: False}


@every_interface
async def test_an_answer_that_is_not_json_keeps_its_status(interface: Interface) -> None:
    subject = emulator(faults=Faults(not_json=1.0))
    async with talking_to(subject) as http:
        answer = await interface.change_it(subject, http)
    assert (answer.status_code, answer.headers["content-type"]) == (interface.status, "text/html; charset=utf-8")
    assert answer.text.startswith("<!DOCTYPE html>")
    assert interface.made(subject) == 1


@every_interface
async def test_a_success_can_come_with_nothing_but_an_error_in_its_body(interface: Interface) -> None:
    subject = emulator(faults=Faults(bare_error=1.0), keys=("key",))
    async with talking_to(subject) as http:
        answer = await interface.change_it(subject, http)
        assert (answer.status_code, answer.json()) == (interface.status, {"error": "something went wrong"})
        http.headers["authorization"] = "wrong"
        assert (await interface.ask_it(http)).status_code == 401
    assert (interface.made(subject), subject.dice.counts()[Fault.BARE_ERROR]) == (1, 1)


@every_interface
async def test_an_answer_can_be_cut_in_the_middle(interface: Interface) -> None:
    subject = emulator(faults=Faults(cut_answer=1.0))
    async with talking_to(subject) as http:
        with pytest.raises(ConnectionCut):
            await interface.ask_it(http)
    assert subject.dice.counts()[Fault.CUT_ANSWER] == 1


async def test_an_answer_without_a_body_is_cut_before_it_begins_and_never_an_html_page() -> None:
    subject = emulator()
    async with talking_to(subject) as http:
        ids = [(await http.post("/v2/pods", json=GPU)).json()["id"] for _ in range(2)]
        subject.dice.faults = Faults(not_json=1.0)
        answer = await http.delete(f"/v2/pods/{ids[0]}")
        assert (answer.status_code, answer.content) == (204, b"")
        subject.dice.faults = Faults(cut_answer=1.0)
        with pytest.raises(ConnectionCut):
            await http.delete(f"/v2/pods/{ids[1]}")
    assert subject.account.pods.list("user", subject.clock.now()) == ()


@every_interface
async def test_a_slow_answer_takes_its_time_and_less_of_it_where_time_runs_faster(interface: Interface) -> None:
    slow = Faults(slow_answer=1.0, slow_answer_s=6.0)
    for scale, seconds in ((1.0, 6.0), (3.0, 2.0)):
        begin = anyio.current_time()
        async with talking_to(emulator(faults=slow, time_scale=scale)) as http:
            await interface.ask_it(http)
        assert anyio.current_time() - begin == pytest.approx(seconds)


@every_interface
async def test_an_outage_cuts_requests_and_answers_under_way(interface: Interface) -> None:
    subject = emulator(faults=Faults(slow_answer=1.0, slow_answer_s=5.0))
    start = subject.clock.now()
    subject.gate.wire.outage(start + 2 * SECOND_US, start + 60 * SECOND_US)
    async with talking_to(subject) as http:
        for made in (1, 1):
            with pytest.raises(ConnectionCut):
                await interface.change_it(subject, http)
            assert interface.made(subject) == made
        await anyio.sleep(60)
        assert (await interface.ask_it(http)).status_code == 200


@every_interface
@pytest.mark.parametrize(("form", "kind"), [("plain", "text/plain"), ("html", "text/html"), ("empty", "application/")])
async def test_bodies_of_errors_have_the_chosen_form(interface: Interface, form: str, kind: str) -> None:
    subject = emulator(error_bodies=ErrorBodies(form), keys=("another",))
    async with talking_to(subject) as http:
        answer = await interface.ask_it(http)
    assert answer.status_code == 401
    assert answer.headers["content-type"].startswith(kind)
    assert {"plain": answer.text in {"unauthorized", "invalid bearer token"}, "empty": answer.text == ""}.get(
        form, answer.text.startswith("<!DOCTYPE html>")
    )


@every_account_interface
async def test_the_stats_show_each_operation_and_the_strikes_of_each_fault(interface: Interface) -> None:
    subject = emulator()
    async with talking_to(subject) as http:
        await interface.ask_it(http)
        subject.dice.faults = Faults(server_error=1.0)
        await interface.ask_it(http)
        stats = (await http.get("/emulator/stats")).json()
    figures = stats["interfaces"][interface.name][interface.question]
    assert (figures["accepted"], figures["refused"], figures["window_max"]) == (2, 0, 2)
    assert figures["concurrent_max"] == 1
    assert stats["faults"]["server_error"] == 1
    assert set(stats["faults"]) == set(Fault)


async def test_the_stats_count_who_is_over_a_limit_of_pods() -> None:
    quotas = {"minute": Quota(requests=2, window_s=60)}
    subject = emulator(pods=PodSettings(quotas=quotas))
    async with talking_to(subject) as http:
        statuses = [(await http.get("/v2/pods")).status_code for _ in range(3)]
        assert (await http.put("/v2/pods/x/action")).status_code == 429
        stats = (await http.get("/emulator/stats")).json()["interfaces"]["pods"]
    assert statuses == [200, 200, 429]
    assert {name: (figures["accepted"], figures["refused"]) for name, figures in stats.items()} == {
        "list": (2, 1),
        "unknown": (0, 1),
    }


async def test_what_is_said_of_limits_is_in_the_senders_seconds() -> None:
    """Contract of pods, Limits: seconds until the window resets, and its length."""
    quotas = {"minute": Quota(requests=1, window_s=60), "day": Quota(requests=9, window_s=86_400)}
    subject = emulator(pods=PodSettings(quotas=quotas), time_scale=30.0)
    async with talking_to(subject) as http:
        answer = await http.get("/v2/pods")
        assert answer.headers["ratelimit"] == '"minute";r=0;t=2, "day";r=8;t=2880'
        assert answer.headers["ratelimit-policy"] == '"minute";q=1;w=2, "day";q=9;w=2880'
        refused = await http.get("/v2/pods")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "2")
        await anyio.sleep(2)
        assert (await http.get("/v2/pods")).status_code == 200
