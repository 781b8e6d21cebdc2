"""`--dashboard`: what the child gets, when it begins and that it ends."""

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.cli.framework.dashboard_child import ENDS_WITH_INPUT, child_environment, spelled_out
from tests.engine.rows import empty_ledger


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("run --dashboard in.jsonl", "run --dashboard=on in.jsonl"),
        ("run in.jsonl --dashboard", "run in.jsonl --dashboard=on"),
        ("run --dashboard --quiet in.jsonl", "run --dashboard=on --quiet in.jsonl"),
        ("serve --dashboard 127.0.0.1:9000", "serve --dashboard 127.0.0.1:9000"),
        ("serve --dashboard :9000", "serve --dashboard :9000"),
        ("serve --dashboard=:9000", "serve --dashboard=:9000"),
        ("run -- --dashboard", "run -- --dashboard"),
        ("dashboard --listen :1", "dashboard --listen :1"),
    ],
)
def test_the_flag_may_stand_alone_before_whatever_follows(given: str, found: str) -> None:
    assert spelled_out(given.split()) == found.split()


def test_the_child_gets_no_key_and_nothing_that_settings_may_name() -> None:
    environ = {
        "PATH": "/bin",
        "HOME": "/root",
        "LC_ALL": "C",
        "ORCHESTRATOR_DASHBOARD_URL": "https://x.example",
        "ORCHESTRATOR_API_KEY": "key",
        "RUNPOD_API_KEY": "key",
        "OPS_WEBHOOK": "https://hooks.example/secret",
        "ANYTHING": "secret",
    }
    found = child_environment(environ)
    assert "secret" not in " ".join(found.values())
    assert set(found) == {"PATH", "HOME", "LC_ALL", "ORCHESTRATOR_DASHBOARD_URL", ENDS_WITH_INPUT}


def test_the_child_reaches_a_ledger_on_a_server_as_its_parent_does() -> None:
    reached_by = ("PGPASSWORD", "PGPASSFILE", "PGSSLROOTCERT", "PGSSLCERT", "PGSSLKEY")
    environ = dict.fromkeys((*reached_by, "STATE_DIRECTORY", "XDG_STATE_HOME"), "given")
    assert child_environment(environ) == {**environ, ENDS_WITH_INPUT: "1"}


SLOW = "import time\ndef slow(job):\n    time.sleep(60)\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "in.jsonl").write_text('{"n": 1}\n')
    return tmp_path


def begun(folder: Path, *words: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "orchestrator", "run", "in.jsonl", "--endpoint", "local:slow.py:slow", *words],
        cwd=folder,
        env={**os.environ, "ORCHESTRATOR_API_KEY": "s3cret"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def children_of(process: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(process)], capture_output=True, check=False)
    lines = [line.split(maxsplit=1) for line in found.stdout.decode().splitlines()]
    return [int(number) for number, words in lines if "dashboard serve" in words]


@pytest.mark.system
@pytest.mark.slow
def test_it_is_served_while_a_run_goes_on_and_ends_with_it_however_that_ends(folder: Path) -> None:
    run = begun(folder, "--dashboard", "127.0.0.1:0")
    assert run.stderr is not None
    said = [run.stderr.readline().decode() for _ in range(2)]
    assert re.search(r"the dashboard is at http://127\.0\.0\.1:\d+", said[0])
    assert "/login?link=" in said[1]
    [child] = children_of(run.pid)
    assert b"s3cret" not in Path(f"/proc/{child}/environ").read_bytes()
    watched = os.pidfd_open(child)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    poll = select.poll()
    poll.register(watched)
    assert poll.poll(20_000), "it hears that its parent is gone"
    os.close(watched)


@pytest.mark.system
@pytest.mark.slow
def test_nothing_begins_where_it_cannot_be_served(folder: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        run = begun(folder, "--dashboard", f"127.0.0.1:{taken.getsockname()[1]}", "--json")
        stdout, stderr = run.communicate(timeout=60)
    assert run.returncode == 2
    assert "another program listens there" in stderr.decode()
    assert "nothing else was begun" in stderr.decode()
    assert (stdout, (folder / "orchestrator.db").exists()) == (b"", False)


@pytest.mark.system
@pytest.mark.slow
def test_the_dashboard_itself_says_where_it_is_as_json(tmp_path: Path) -> None:
    ledger = empty_ledger(tmp_path / "ledger.db")
    words = ["dashboard", "--json", "--listen", "127.0.0.1:0", "--ledger", str(ledger)]
    with subprocess.Popen([sys.executable, "-m", "orchestrator", *words], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        place = json.loads(process.stdout.readline())
        assert place["sign_in"]["link"].startswith(f"{place['url']}/login?link=")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
