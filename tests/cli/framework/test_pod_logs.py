"""`orchestrator pods logs` and `endpoints logs`: what is printed of a log, and what is refused."""

import json

import httpx
import pytest

from orchestrator.account import Account
from orchestrator.cli.framework.service_access import Access
from orchestrator.client import Service
from tests.cli.account.test_pods import Shell
from tests.cli.accounts import Shell as AccountShell
from tests.cli.command_line import Result
from tests.client.event_streams import Step, Streams

GONE = httpx.Response(404)
LINES: list[Step] = [
    b'id: 1\ndata: {"source":"system","line":"container started","ts":"2026-01-01T00:00:05Z"}\n\n',
    b'id: 2\ndata: {"source":"container","line":"\\u001b[2Ja\\nb \\u009b\\u202e","ts":"2026-01-01T00:00:06Z"}\n\n',
]


def read(*arguments: str, answers: tuple[list[Step] | httpx.Response, ...] = (LINES,)) -> tuple[Result, Streams]:
    streams = Streams(*answers)
    return Shell(transport=streams)("logs", *arguments), streams


def test_each_line_is_printed_on_a_line_that_moves_no_cursor() -> None:
    printed, _ = read("p1", "--tail", "2")
    assert printed.stdout.splitlines() == [
        "2026-01-01T00:00:05Z system container started",
        "2026-01-01T00:00:06Z container \\x1b[2Ja b \\x9b\\u202e",
    ]
    assert (printed.exit_code, printed.stderr) == (0, "")
    as_json, streams = read("p1", "--tail", "2", "--since", "2026-01-01T00:00Z", "--source", "container", "--json")
    assert [json.loads(line)["id"] for line in as_json.stdout.splitlines()] == ["1", "2"]
    started = {"id": "1", "ts": "2026-01-01T00:00:05Z", "source": "system", "line": "container started"}
    assert json.loads(as_json.stdout.splitlines()[0]) == started
    assert streams.requests[0].url.query.decode() == "tail=2&since=2026-01-01T00%3A00%3A00Z&source=container"


def test_a_pod_is_found_by_its_name_and_followed_until_it_is_gone() -> None:
    pods = httpx.Response(200, json={"pods": [{"id": "p1", "name": "night-trainer", "status": "RUNNING"}]})
    followed, streams = read("night-trainer", "--follow", "--since", "10m", answers=(pods, LINES, GONE))
    assert (followed.exit_code, len(followed.stdout.splitlines())) == (0, 2)
    assert followed.stderr == "pod night-trainer prints no more\n"
    assert [request.url.path for request in streams.requests] == ["/v2/pods", "/v2/pods/p1/logs", "/v2/pods/p1"]
    nothing, _ = read("p1", answers=([],))
    assert (nothing.stdout, nothing.stderr) == ("", "pod p1 has no such lines\n")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--interface", "v1"), "REST v1 cannot say what a pod has printed; use --interface v2; nothing was sent"),
        (("--interface", "graphql"), "GraphQL cannot say what a pod has printed; use --interface v2; nothing was sent"),
        (("--tail", "5001"), "a log's tail is 0 to 5,000 lines; nothing was sent"),
        (("--tail", "0"), "a tail of 0 lines is what is yet to come, and that has to be followed; nothing was sent"),
        (
            ("--since", "yesterday"),
            "--since yesterday: write how long ago, as in 10m, or a time stamp: 2026-11-23T06:00Z",
        ),
        (("--source", "/"), "'/' is no source of lines; the service has container and system; nothing was sent"),
    ],
)
def test_what_no_service_takes_is_wrong_usage(arguments: tuple[str, ...], error: str) -> None:
    refused, streams = read("p1", *arguments)
    assert (refused.exit_code, refused.stdout, refused.stderr) == (2, "", f"error: {error}\n")
    assert streams.requests == []


def test_what_the_service_refuses_is_one_clear_line() -> None:
    refused, _ = read("p1", "--interface", "v2", answers=(GONE, httpx.Response(200, json={"pods": []})))
    assert (refused.exit_code, refused.stdout) == (3, "")
    assert refused.stderr.startswith("error: pods logs p1: the service does not know it")


def test_a_workers_log_is_printed_as_a_pods_is() -> None:
    streams = Streams(LINES)

    def connect(access: Access) -> Account:
        return Account(Service("http://jobs", access.key, transport=streams), interface=access.interface)

    shell = AccountShell(connect=connect)
    printed = shell("endpoints", "logs", "abc1", "w1", "--tail", "1", "--source", "system", "--interface", "v2")
    assert (printed.stdout, printed.stderr) == ("2026-01-01T00:00:05Z system container started\n", "")
    assert streams.requests[0].url.path == "/v2/serverless/abc1/workers/w1/logs"
    refused = shell("endpoints", "logs", "abc1", "w1", "--interface", "v1", "--follow", "--since", "1h")
    assert refused.exit_code == 2
    assert refused.stderr.startswith("error: REST v1 cannot say what worker w1 of abc1 has printed; use --interface v2")
