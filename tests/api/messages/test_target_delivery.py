"""Targets of each kind, told over real sockets, and by receivers that misbehave."""

import base64
import json
from pathlib import Path
from typing import Any

import anyio
import pytest
import standardwebhooks
from anyio.abc import SocketStream
from msgspec.structs import replace

from orchestrator.api.messages.message_senders import MessageSender
from orchestrator.api.messages.target_checks import check_run_receivers, receiver_problems
from orchestrator.api.messages.target_delivery import deliver
from orchestrator.api.messages.target_test import send_test
from orchestrator.client.notify.delivery import TAKEN, Delivery, Outgoing
from orchestrator.core.pipelines.message_text import letter_of
from orchestrator.core.pipelines.pipeline import Notify
from orchestrator.core.pipelines.run_messages import RunNews, run_message
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import UsageError
from orchestrator.ledger.flows.run_outbox import RunMessage
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.monitoring.notify_targets import MailSecurity, NotifyTarget, TargetKind
from orchestrator.units import SECOND_US
from tests.client.raw_server import answering, closed_port, read_request, response, serving

pytestmark = pytest.mark.anyio

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
BODY = b'{"type":"run.failed","timestamp":"2026-01-01T00:00:00Z","data":{"run":"night","rows":3,"commands":[]}}'
MESSAGE = Outgoing(number="msg_7", of="run 7", body=BODY, letter=letter_of(BODY))


class Receiver:
    """A server on a real socket, that notes what it got."""

    def __init__(self, answer: bytes = response()) -> None:
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self._answer = answer

    async def __call__(self, stream: SocketStream) -> None:
        head, _, body = (await read_request(stream)).partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        self.got.append((first, headers, body))
        await stream.send(self._answer)


def around(**environ: str) -> Dependencies:
    return Dependencies(environ={"PATH": "/usr/bin:/bin", **environ})


async def told(
    target: NotifyTarget, receiver: Receiver, news: str = "failed", path: str = "/T0/secret-path"
) -> Delivery:
    async with serving(receiver) as address:
        given = around(HOOK=f"http://{address}{path}", SIGN=SECRET)
        return await deliver(target, news, MESSAGE, given, folder=Path())


async def test_a_webhook_is_signed_so_that_the_standard_s_library_verifies_it() -> None:
    receiver = Receiver()
    assert await told(NotifyTarget(kind=TargetKind.WEBHOOK, url="env:HOOK", secret="env:SIGN"), receiver) == TAKEN
    [(_, headers, body)] = receiver.got
    assert headers["webhook-id"] == "msg_7"
    assert standardwebhooks.Webhook(SECRET).verify(body, headers) == json.loads(BODY)
    with pytest.raises(standardwebhooks.webhooks.WebhookVerificationError):
        standardwebhooks.Webhook(SECRET).verify(body + b" ", headers)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (TargetKind.SLACK, lambda body: body["text"]),
        (TargetKind.DISCORD, lambda body: body["content"]),
        (TargetKind.TEAMS, lambda body: json.dumps(body["attachments"][0]["content"]["body"])),
    ],
)
async def test_a_chat_is_told_in_words(kind: TargetKind, says: Any) -> None:
    receiver = Receiver(response(b"", status="202 Accepted"))
    assert await told(NotifyTarget(kind=kind, url="env:HOOK"), receiver) == TAKEN
    [(first, headers, body)] = receiver.got
    assert first == "POST /T0/secret-path HTTP/1.1"
    assert headers["content-type"] == "application/json"
    assert "night has failed" in says(json.loads(body))


@pytest.mark.parametrize(
    ("news", "path"), [("started", "/c1/start"), ("done", "/c1"), ("failed", "/c1/fail"), ("abandoned", "/c1/fail")]
)
async def test_a_ping_asks_for_the_url_of_what_has_happened(news: str, path: str) -> None:
    receiver = Receiver()
    assert await told(NotifyTarget(kind=TargetKind.PING, url="env:HOOK"), receiver, news, "/c1") == TAKEN
    [(first, _, body)] = receiver.got
    asked, _, rid = first.split(" ")[1].partition("?rid=")
    assert asked == path
    assert len(rid) == 36
    assert b"night has failed" in body


async def test_a_start_and_its_end_have_an_id_in_common_and_another_run_another() -> None:
    rids = []
    for of in ("run 7", "run 7", "run 8"):
        receiver = Receiver()
        async with serving(receiver) as address:
            message = Outgoing(number="m", of=of, body=BODY, letter=MESSAGE.letter)
            target = NotifyTarget(kind=TargetKind.PING, url="env:HOOK")
            await deliver(target, "done", message, around(HOOK=f"http://{address}/c1?x=1"), folder=Path())
        rids.append(receiver.got[0][0].split(" ")[1])
    assert rids[0] == rids[1] != rids[2]
    assert rids[0].startswith("/c1?x=1&rid=")


async def test_a_ping_with_urls_of_its_own() -> None:
    target = NotifyTarget(kind=TargetKind.PING, url="env:HOOK", fail="env:FAIL")
    receiver = Receiver()
    async with serving(receiver) as address:
        given = around(HOOK=f"http://{address}/ok", FAIL=f"http://{address}/bad")
        await deliver(target, "failed", MESSAGE, given, folder=Path())
        assert not (await deliver(target, "spend", MESSAGE, given, folder=Path())).is_wanted
    assert [first for first, *_ in receiver.got] == ["POST /bad HTTP/1.1"]


async def test_of_a_ping_that_has_a_heartbeat_alone_a_test_asks_for_that_and_no_news_does() -> None:
    target, receiver = NotifyTarget(kind=TargetKind.PING, heartbeat="env:HOOK"), Receiver()
    assert await told(target, receiver, "test", "/alive") == TAKEN
    assert not (await told(target, receiver, "failed", "/alive")).is_wanted
    assert [first for first, *_ in receiver.got] == ["POST /alive HTTP/1.1"]


async def test_what_a_target_does_not_want_is_not_sent() -> None:
    receiver = Receiver()
    target = NotifyTarget(kind=TargetKind.SLACK, url="env:HOOK", on=("held",))
    assert not (await told(target, receiver, "failed")).is_wanted
    assert not (await told(NotifyTarget(kind=TargetKind.SLACK, url="env:HOOK"), receiver, "started")).is_wanted
    assert receiver.got == []


@pytest.mark.parametrize(
    ("status", "headers", "problem", "wait_s"),
    [
        ("429 Too Many Requests", "Retry-After: 90\r\n", "127.0.0.1 answered 429", 90),
        ("500 Oops", "", "127.0.0.1 answered 500", 0),
        (
            "302 Found",
            "Location: http://elsewhere.example/\r\n",
            "127.0.0.1 answered 302, and redirects are not followed: write the address that it leads to",
            0,
        ),
    ],
)
async def test_a_refusal_is_said_with_how_long_to_wait_and_nothing_of_the_path(
    status: str, headers: str, problem: str, wait_s: int
) -> None:
    receiver = Receiver(response(b"very-secret", status=status, headers=headers))
    came = await told(NotifyTarget(kind=TargetKind.DISCORD, url="env:HOOK"), receiver)
    assert came == Delivery(problem=problem, wait_us=wait_s * SECOND_US)
    assert len(receiver.got) == 1


async def test_who_closes_without_a_word_or_is_not_there_is_a_problem_that_names_no_secret() -> None:
    target = NotifyTarget(kind=TargetKind.SLACK, url="env:HOOK")
    async with serving(answering()) as address:
        cut = await deliver(target, "failed", MESSAGE, around(HOOK=f"http://{address}/secret"), folder=Path())
    away = await deliver(target, "failed", MESSAGE, around(HOOK=f"http://{closed_port()}/secret"), folder=Path())
    for came in (cut, away):
        assert came.problem is not None
        assert "secret" not in came.problem


async def test_a_command_gets_the_json_and_says_why_it_has_not_taken_it(tmp_path: Path) -> None:
    command = ("sh", "-c", "cat > told.json")
    target = NotifyTarget(kind=TargetKind.COMMAND, command=command)
    assert await deliver(target, "failed", MESSAGE, around(), folder=tmp_path) == TAKEN
    assert json.loads((tmp_path / "told.json").read_bytes()) == json.loads(BODY)
    bad = NotifyTarget(kind=TargetKind.COMMAND, command=("sh", "-c", "exit 3"))
    assert "exit code 3" in str((await deliver(bad, "failed", MESSAGE, around(), folder=tmp_path)).problem)


async def test_a_mail_goes_where_its_target_says_with_the_password_of_its_variable() -> None:
    routes: list[Any] = []

    async def send(route: Any, message: Outgoing, _at: int) -> Delivery:
        routes.append((route.host, route.port, route.password, tuple(route.to), message.number))
        return TAKEN

    given = Dependencies(environ={"PASS": "pw"}, send_mail=send)
    for server, port in (("smtp.example", 465), ("smtp.example:2525", 2525), ("[::1]:26", 26)):
        target = NotifyTarget(
            kind=TargetKind.EMAIL,
            server=server,
            security=MailSecurity.TLS,
            user="me",
            password="env:PASS",
            sender="o@example.org",
            to=("a@example.org",),
        )
        assert await deliver(target, "failed", MESSAGE, given, folder=Path()) == TAKEN
        assert routes.pop() == (
            server.rsplit(":", 1)[0].strip("[]") if port != 465 else server,
            port,
            "pw",
            ("a@example.org",),
            "msg_7",
        )


async def test_without_its_variable_a_message_waits_and_says_which() -> None:
    target = NotifyTarget(kind=TargetKind.WEBHOOK, url="env:HOOK", secret="env:SIGN")
    assert (await deliver(target, "failed", MESSAGE, around(), folder=Path())).problem == (
        "HOOK is not set in the environment of this process"
    )
    bad = around(HOOK="https://hooks.example/", SIGN="hunter2-hunter2")
    problem = (await deliver(target, "failed", MESSAGE, bad, folder=Path())).problem
    assert problem is not None
    assert problem.startswith("SIGN: its value is no secret")
    assert "hunter2" not in problem


# --- by name


def run_told(target: str) -> RunMessage:
    body = run_message(RunNews.FAILED, run="night 2", jobs={"failed": 3}, at=0)
    return RunMessage(
        id=1, run=7, name="night 2", settings=b"{}", news=RunNews.FAILED, body=body, owed_at=0, due_at=0,
        tries=0, taken_at=None, given_up_at=None, problem="", target=target,
    )  # fmt: skip


async def test_a_message_to_a_target_has_its_commands_and_a_link_to_the_dashboard(tmp_path: Path) -> None:
    receiver = Receiver()
    targets = {"ops": NotifyTarget(kind=TargetKind.SLACK, url="env:HOOK")}
    async with serving(receiver) as address:
        connection = ConnectionSettings(targets=targets, dashboard_url="https://jobs.example/o/")
        sender = MessageSender(tmp_path / "l.db", connection, around(HOOK=f"http://{address}/"))
        assert await sender.tell_of_run(run_told("ops")) == TAKEN
    text = json.loads(receiver.got[0][2])["text"]
    assert f"orchestrator retry --ledger {tmp_path}/l.db 'night 2'" in text
    assert text.splitlines()[-1] == "https://jobs.example/o/find?run=night%202"


async def test_a_target_is_told_of_what_a_run_names_whatever_it_says_itself(tmp_path: Path) -> None:
    receiver = Receiver()
    targets = {"ops": NotifyTarget(kind=TargetKind.SLACK, url="env:HOOK", on=("held",))}
    async with serving(receiver) as address:
        connection = ConnectionSettings(targets=targets)
        sender = MessageSender(tmp_path / "l.db", connection, around(HOOK=f"http://{address}/"))
        assert not (await sender.tell_of_run(run_told("ops"))).is_wanted
        told = replace(run_told("ops"), settings=b'{"notify": "ops:failed"}')
        assert await sender.tell_of_run(told) == TAKEN
    assert len(receiver.got) == 1


async def test_a_target_that_nobody_knows_is_said_and_a_program_of_that_name_is_begun(tmp_path: Path) -> None:
    sender = MessageSender(tmp_path / "l.db", ConnectionSettings(), around())
    assert (await sender.tell_of_run(run_told("ops"))).problem == (
        "there is no target ops in the configuration file of this process: write [notify.ops]"
    )
    assert await sender.tell_of_run(run_told("true")) == TAKEN
    assert "exit code 1" in str((await sender.tell_of_run(run_told("false"))).problem)


async def test_who_cannot_be_told_is_found_before_anything_is_owed() -> None:
    targets = {"ops": NotifyTarget(kind=TargetKind.SLACK, url="env:HOOK")}
    check_run_receivers("ops:failed\nhttps://x.example/\ntrue", targets, around(HOOK="https://x.example/").environ)
    for notify, environ, why in (
        ("opps", {}, "no target opps in the configuration file; did you mean ops"),
        ("opps:failed", {}, "no target opps"),
        ("ops", {}, "the target ops cannot be told: HOOK is not set"),
        ("ops", {"HOOK": "nonsense"}, "HOOK, which is to hold a URL, holds none"),
    ):
        with pytest.raises(UsageError, match=why):
            check_run_receivers(notify, targets, around(**environ).environ)
    found = list(receiver_problems(Notify(to=("ops:done", "mail"), secret="env:SIGN"), targets, {}))
    assert [why.partition(":")[0] for why in found] == [
        "the secret of [notify] is not there",
        "the target ops cannot be told",
        "there is no target mail in the configuration file; write [notify.mail] there",
    ]


async def test_a_test_reaches_a_target_whatever_it_is_told_of_and_under_a_new_id_each_time() -> None:
    receiver = Receiver()
    targets = {"hook": NotifyTarget(kind=TargetKind.WEBHOOK, url="env:HOOK", on=("failed",))}
    async with serving(receiver) as address:
        for _ in range(2):
            came = await send_test("hook", ConnectionSettings(targets=targets), around(HOOK=f"http://{address}/"))
            assert came.problem is None
    assert len({headers["webhook-id"] for _, headers, _ in receiver.got}) == 2
    assert json.loads(receiver.got[0][2])["type"] == "target.test"
    with pytest.raises(UsageError, match="no target hok in the configuration file; did you mean hook"):
        await send_test("hok", ConnectionSettings(targets=targets), around())


async def test_a_receiver_that_hangs_holds_no_test_up_for_ever() -> None:
    async def hang(stream: SocketStream) -> None:
        await read_request(stream)
        await anyio.sleep_forever()

    with anyio.move_on_after(0.2) as scope:
        async with serving(hang) as address:
            target = NotifyTarget(kind=TargetKind.SLACK, url="env:HOOK")
            await deliver(target, "failed", MESSAGE, around(HOOK=f"http://{address}/"), folder=Path())
    assert scope.cancelled_caught, "it can be left at any time; the outbox's tests are on how long it is waited for"
