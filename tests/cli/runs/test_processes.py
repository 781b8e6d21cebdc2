"""`orchestrator status --processes`."""

import json

import pytest

from orchestrator.cli.output.process_table import show_processes
from orchestrator.views.processes import (
    LackShown,
    LedgerProcesses,
    ProcessShown,
    ShardLackShown,
    ShardShown,
    UnservableShown,
)
from tests.cli.command_line import give, shown
from tests.cli.small_ledger import a_ledger

SINCE = 1_767_225_600_000_000
MINE = tuple(f"endpoint-{n}" for n in range(4))
FOUND = LedgerProcesses(
    ledger="postgresql://me@h/d",
    processes=(
        ProcessShown(
            process="process 7 on one (serve)",
            version="1.2",
            since=SINCE,
            is_beating=True,
            shards=(ShardShown(shard=0), ShardShown(shard=1, endpoints=MINE, wanted_by="process 9 on three")),
        ),
        ProcessShown(process="process 8 on two (serve)", version="1.2", since=SINCE, is_beating=False, stands_by=True),
        ProcessShown(process="process 9 on three", version="1.2", since=SINCE, is_beating=False, is_connected=False),
        ProcessShown(process="vm 5", since=SINCE, reported_at=SINCE + 90_000_000),
    ),
    free=(
        ShardShown(shard=7, endpoints=("a", "b"), left_at=SINCE),
        ShardShown(shard=8, endpoints=("c",)),
        ShardShown(shard=0),
    ),
    lacks=(LackShown(run="night", process="vm 5", why="there is no API key for it"),),
    unservable=(
        UnservableShown(
            shard=7,
            endpoints=("a", "b"),
            lacks=(
                ShardLackShown(process="process 7 on one", why="HF_TOKEN is not set"),
                ShardLackShown(process="process 8 on two", why="check.py is gone"),
                ShardLackShown(process="process 9 on three", why="HF_TOKEN is not set"),
            ),
        ),
        UnservableShown(shard=0, endpoints=(), lacks=(ShardLackShown(process="vm 5", why="/p is not there"),)),
    ),
)


def test_each_process_has_a_line_with_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    told = shown(lambda: show_processes(FOUND, as_json=False))
    lines = [" ".join(line.split()) for line in told.stdout.splitlines()]
    assert lines[0] == "PROCESS VERSION SINCE (UTC) BEATS HAS"
    assert (
        "process 7 on one (serve) 1.2 2026-01-01 00:00:00 yes schedules and flows; endpoint-0, endpoint-1, endpoint-2 and 1 more; wanted by process 9 on three"
        in lines
    )
    assert json.loads(shown(lambda: show_processes(FOUND, as_json=True)).stdout)["processes"][0]["is_keeper"]
    assert "process 8 on two (serve) 1.2 2026-01-01 00:00:00 no stands by" in lines
    assert "process 9 on three 1.2 2026-01-01 00:00:00 no, and is gone all of it" in lines
    assert "vm 5 2026-01-01 00:00:00 00:01:30 all of it" in lines


def test_what_nobody_has_and_what_is_lacking_is_said_below() -> None:
    assert list(FOUND.remarks) == [
        "nobody has a, b, where runs are not finished; who had it was gone at 2026-01-01 00:00:00 UTC",
        "nobody has c, where runs are not finished",
        "nobody has the schedules and flows",
        "night is not served by vm 5: there is no API key for it",
        "nobody can serve a, b: HF_TOKEN is not set (process 7 on one, process 9 on three); check.py is gone (process 8 on two)",
        "nobody can serve schedules and flows: /p is not there (vm 5)",
    ]
    assert list(LedgerProcesses(ledger="l.db", processes=()).remarks) == ["nobody works on l.db"]


def test_on_a_file_on_which_nobody_works_that_is_said() -> None:
    a_ledger(queued=2)
    assert give("status", "--processes").stderr == "nobody works on orchestrator.db\n"
    assert json.loads(give("status", "--processes", "--json").stdout) == {
        "ledger": "orchestrator.db", "processes": [], "free": [], "lacks": [], "unservable": [],
    }  # fmt: skip


@pytest.mark.parametrize("words", [("captions", "--processes"), ("--processes", "--all"), ("--processes", "--needs")])
def test_it_is_of_the_whole_ledger(words: tuple[str, ...]) -> None:
    a_ledger(queued=2)
    refused = give("status", *words)
    assert refused.exit_code == 2
    assert "tells of all of a ledger" in refused.stderr
