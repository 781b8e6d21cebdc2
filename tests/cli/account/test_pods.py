"""`orchestrator pods` at an emulated service: what is printed, asked and sent, and the exit codes."""

import json
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from orchestrator.account import Account
from orchestrator.account.pods.pod_record import Pod, decode_pod
from orchestrator.cli.account.pod_tables import pod_lines, window_line
from orchestrator.cli.framework.service_access import Access, Interface
from orchestrator.cli.output import tables
from orchestrator.client import InProcess, Service
from orchestrator.clock import SystemClock
from orchestrator.core.limits.ratelimit_headers import Window
from orchestrator.emulator.account.pod_bodies import parse_creation
from orchestrator.emulator.account.pod_records import ClusterRecord, PodVerb
from orchestrator.emulator.account.pods import PodSettings
from orchestrator.emulator.contract.answers import ConnectionCut
from orchestrator.emulator.contract.callers import QUOTAS, Caller, Quota
from tests.account.pods.test_pod_records import WHOLE
from tests.cli.command_line import Result, call, give
from tests.emulator.pod_service import AT_ONCE, CPU, GPU, KEY, PodService

SECOND = 1_000_000


class Shell:
    """The command line beside an emulated service; `transport` replaces the way there."""

    def __init__(
        self, settings: PodSettings = AT_ONCE, *, transport: httpx.AsyncBaseTransport | None = None, **more: Any
    ) -> None:
        self.service = PodService(settings, clock=SystemClock(), **more)
        self.transport = transport or InProcess(self.service.app, cut=ConnectionCut)
        self.connected: list[Access] = []

    def connect(self, access: Access) -> Account:
        self.connected.append(access)
        service = Service("http://jobs", access.key, transport=self.transport)
        return Account(service, base_url=access.urls[Interface.PODS], team_id=access.team)

    def __call__(self, *arguments: str, **environment: str) -> Result:
        variables = {"ORCHESTRATOR_API_KEY": KEY, "COLUMNS": "100", **environment}
        result = call(["pods", *arguments], environment=variables, connect=self.connect)
        assert KEY not in result.output
        assert "Traceback" not in result.output
        return result

    def create(self, body: Any = GPU, *, cluster: ClusterRecord | None = None, **more: Any) -> str:
        creation = parse_creation(msgspec.json.encode({**body, **more}))
        known = {} if cluster is None else {"cluster": cluster}
        return self.service.world.create("user", creation, self.service.clock.now(), **known).id

    def status(self, pod_id: str) -> str:
        return self.service.world.get("user", pod_id, self.service.clock.now()).status


# --- list and show ---------------------------------------------------------------------------------------------------


def test_list_is_a_table_with_what_it_costs() -> None:
    shell = Shell()
    gpu, cpu = shell.create(), shell.create(CPU, name="web\x1b")
    listed = shell("list")
    lines = [line.split() for line in listed.stdout.splitlines()]
    assert lines[0] == ["id", "name", "status", "hardware", "image", "$/h"]
    assert lines[3] == [gpu, "trainer", "RUNNING", "1", "x", "NVIDIA", "L4", "img:1", "1.000"]
    assert lines[2] == [cpu, "web\\x1b", "RUNNING", "4", "vCPU", "cpu3c", "img:1", "0.120"]
    assert listed.stdout.splitlines()[-1] == "2 pods, $1.120 an hour"
    assert (listed.exit_code, listed.stderr) == (0, "")


def test_an_account_without_pods_says_so() -> None:
    listed = Shell()("list")
    assert (listed.exit_code, listed.stdout, listed.stderr) == (0, "", "the account has no pods\n")
    assert Shell()("list", "--json").stdout == "[]\n"


def test_members_of_clusters_are_listed_when_asked_for() -> None:
    """Contract, Pod: `includeClusterPods`."""
    shell = Shell()
    shell.create(cluster=ClusterRecord(id="c1", rank=0))
    assert json.loads(shell("list", "--json").stdout) == []
    (pod,) = json.loads(shell("list", "--include-cluster-pods", "--json").stdout)
    assert pod["cluster"] == {"id": "c1", "rank": 0}


def test_json_is_the_record_as_the_service_sent_it() -> None:
    shell = Shell()
    pod_id = shell.create(env={"TOKEN": "t"})
    shown = json.loads(shell("show", pod_id, "--json").stdout)
    assert (shown["env"], shown["status"]) == ({"TOKEN": "t"}, "RUNNING")
    record = {**WHOLE, "novel": {"a": 1}}
    odd = Shell(transport=httpx.MockTransport(lambda _: httpx.Response(200, json=record)))
    assert json.loads(odd("show", "p1", "--json").stdout) == record


def test_show_tells_all_but_the_values_of_the_environment() -> None:
    shell = Shell()
    shown = shell("show", shell.create(env={"TOKEN": "hunter2"}, ports=["22/tcp", "80/http"], args="serve it"))
    assert "hunter2" not in shown.stdout
    for line in ("status", "actions", "TOKEN (values in --json)", "serve it", "reached at", "ssh root@"):
        assert line in shown.stdout


def test_everything_that_a_record_may_have_is_shown() -> None:
    lines = [f"{name} {value}" for name, value in pod_lines(decode_pod(msgspec.json.encode(WHOLE)))]
    assert lines == [
        "id p1",
        "name trainer",
        "status RUNNING (locked)",
        "actions stop, restart, terminate",
        "cost $1.250 an hour",
        "image img:1",
        "entrypoint sh",
        "cmd a b",
        "hardware 2 x NVIDIA L4",
        "disk 20 GB, wiped on restart",
        "mount network volume n at /n",
        "mount global volume g at /g",
        "cloud SECURE, EU-1",
        "cluster c, rank 0",
        "network 10.1.0.1 p1.internal",
        "template t",
        "ports 22/tcp",
        "env A (values in --json)",
        "ssh ssh u@h (shell only)",
        " works only if the pod was created with --ssh, and with the account's registered keys",
        "running for 5 s: CPU 3 %, memory 4 %, GPU 90 % (memory 50 %)",
        "reached at 22/tcp on 203.0.113.1:20022",
        "created 2026-01-01T00:00:00Z",
        "started never",
    ]


def test_a_record_that_says_little_is_shown_as_well() -> None:
    bare = decode_pod(b'{"id":"p","name":"n","status":"HIBERNATING","args":"\'","cluster":{"id":"c"},'
                      b'"mounts":{"persistent":{"size":10,"path":"/p"},"global":[{"volumeId":"g"}]}}')  # fmt: skip
    text = str(list(pod_lines(bare)))
    for words in ("HIBERNATING", "unknown", "10 GB of the host at /p", "global volume g at a path of its own"):
        assert words in text
    assert "actions" not in text
    none = Pod(id="p", name="n", status="TERMINATED", actions=())
    assert ("actions", "none") in pod_lines(none)


def test_colours_are_for_terminals_only() -> None:
    table = tables.columns(("id",), [("p1",)])
    assert "\x1b[" in tables.drawn(table, width=100, colours=True)
    assert "\x1b[" not in tables.drawn(table, width=100, colours=False)
    listed = Shell(transport=httpx.MockTransport(lambda _: httpx.Response(200, json={"pods": [WHOLE]})))("list")
    assert listed.stdout.endswith("1 pod, $1.250 an hour\n")
    assert "\x1b[" not in listed.stdout


# --- actions ---------------------------------------------------------------------------------------------------------


def test_start_stop_and_restart_do_what_they_say_and_wait() -> None:
    """Contract, Transitions."""
    shell = Shell()
    pod_id = shell.create()
    for action, status in (("restart", "RUNNING"), ("stop", "EXITED"), ("start", "RUNNING")):
        done = shell(action, pod_id, "--wait", "--json")
        assert done.exit_code == 0, done.stderr
        assert json.loads(done.stdout)["status"] == status
        assert done.stderr == f"pod {pod_id}: {action} applied; it is {status} now\n"
        assert shell.status(pod_id) == status
    assert shell("stop", pod_id).stdout == ""


def test_terminate_is_not_done_without_a_yes() -> None:
    shell = Shell()
    pod_id = shell.create()
    refused = shell("terminate", pod_id)
    assert refused.exit_code == 2
    assert f"terminate pod {pod_id} ('trainer', RUNNING) and delete its disk for good?" in refused.stderr
    assert shell.status(pod_id) == "RUNNING"
    done = shell("terminate", pod_id, "--yes", "--wait", "--json")
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"id": pod_id, "status": "TERMINATED"})
    other = shell.create()
    assert shell("terminate", other, "-y").stderr == f"pod {other}: terminated\n"


def test_an_invalid_action_is_refused_here_with_the_valid_ones() -> None:
    """Contract, Actions valid per status."""
    shell = Shell()
    pod_id = shell.create()
    refused = shell("start", pod_id)
    assert refused.exit_code == 2
    assert refused.stderr == (
        f"error: pod {pod_id} is RUNNING, which does not allow start; it allows: stop, restart, terminate;"
        " nothing was sent\n"
    )


def test_a_wait_that_is_too_long_ends_with_where_the_pod_is() -> None:
    shell = Shell(PodSettings(provisioning_s=1000))
    pod_id = shell.create()
    shell.service.world.act("user", pod_id, PodVerb.STOP, shell.service.clock.now())
    late = shell("start", pod_id, "--wait", "--timeout", "0s")
    assert late.exit_code == 3
    assert late.stderr == (
        f"pod {pod_id} is PROVISIONING\nerror: pod {pod_id} is still PROVISIONING 0 s after start; it may get there yet\n"
    )


def test_a_timeout_that_is_none_is_refused() -> None:
    refused = Shell()("stop", "p1", "--wait", "--timeout", "soon")
    assert refused.exit_code == 2
    assert refused.stderr.startswith('error: --timeout: "soon" is not a duration')


def test_a_timeout_for_no_wait_is_refused() -> None:
    refused = Shell()("stop", "p1", "--timeout", "5s")
    assert (refused.exit_code, refused.stderr) == (
        2,
        "error: --timeout says how long --wait may take, which is missing\n",
    )


# --- limits ----------------------------------------------------------------------------------------------------------


def test_verbose_shows_the_limits() -> None:
    """Contract, Limits 2 and 3."""
    lines = Shell()("list", "--verbose").stderr.splitlines()
    assert lines[1].startswith("rate limit, minute: 59 of 60 requests left, per 1 min 00 s, full again in 59 s")
    assert [line.split(":")[0] for line in lines[1:]] == [f"rate limit, {name}" for name in QUOTAS]
    exempt = Shell(callers={KEY: Caller(exempt=True)})("list", "-v")
    assert exempt.stderr.splitlines()[-1] == "rate limit: the service told none"


@pytest.mark.parametrize(
    ("window", "line"),
    [
        (Window(name="minute", remaining=1, reset_at=30 * SECOND), "minute: 1 request left, full again in 20 s"),
        (Window(name="hour", quota=3000, window_s=3600), "hour: 3,000 requests, per 1 h 00 min"),
        (Window(name="day"), "day: nothing told"),
        (Window(name="past", remaining=2, reset_at=0), "past: 2 requests left, full again in 0 s"),
    ],
)
def test_a_window_is_told_as_far_as_it_is_known(window: Window, line: str) -> None:
    """Contract of pods, Limits 6: quotas are not shown."""
    assert window_line(window, 10 * SECOND) == f"rate limit, {line}"


def test_a_window_that_stays_empty_for_long_is_an_error_at_once() -> None:
    shell = Shell(quotas={"day": Quota(requests=2, window_s=86_400)})
    pod_id = shell.create()
    stopped = shell("stop", pod_id, "--verbose")
    assert stopped.exit_code == 3
    assert (
        f"error: pods stop {pod_id}: the day window of the rate limit is nearly used up, and it takes" in stopped.stderr
    )
    assert "nothing was sent" in stopped.stderr
    assert "rate limit, day: 1 of 2 requests left" in stopped.stderr


def test_a_short_wait_for_the_limit_is_told() -> None:
    answers = [
        httpx.Response(429, headers={"retry-after": "0.01"}),
        httpx.Response(200, json={"pods": []}),
    ]
    shell = Shell(transport=httpx.MockTransport(lambda _: answers.pop(0)))
    assert "the service asked for it (429)" in shell("list").stderr


# --- settings --------------------------------------------------------------------------------------------------------


def test_url_and_team_come_from_flags_environment_and_file(tmp_path: Path) -> None:
    shell = Shell()
    shell("list")
    shell("list", "--base-url", "http://a", "--team", "red")
    shell("list", ORCHESTRATOR_BASE_URL="http://b", ORCHESTRATOR_TEAM="blue")
    (tmp_path / "orchestrator.toml").write_text('base-url = "http://c"\nteam = "green"\n')
    shell("list")
    assert [(access.urls[Interface.PODS], access.key, access.team) for access in shell.connected] == [
        ("https://api.runpod.io", KEY, None),
        ("http://a", KEY, "red"),
        ("http://b", KEY, "blue"),
        ("http://c", KEY, "green"),
    ]


def test_a_key_is_needed_and_one_that_travels_unencrypted_is_warned_about() -> None:
    shell = Shell()
    refused = shell("list", ORCHESTRATOR_API_KEY="")
    assert refused.exit_code == 2
    assert "there is no API key" in refused.stderr
    assert "travels unencrypted to http://example.com" in shell("list", "--base-url", "http://example.com").stderr


def test_the_program_has_the_commands_and_speaks_to_the_network() -> None:
    helped = give("pods", "--help")
    assert all(
        command in helped.output
        for command in ("create", "modify", "list", "show", "start", "stop", "restart", "terminate")
    )
    refused = give("pods", "list", "--base-url", "ftp://x", ORCHESTRATOR_API_KEY=KEY)
    assert refused.exit_code == 2
    assert "--base-url: this is no URL; write https://HOST" in refused.stderr
