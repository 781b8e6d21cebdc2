"""A whole run of the program, whose listener is attacked meanwhile by strangers in a process of their own.

The service that stands in posts a webhook for each job, over a new connection for each, and measures how long its answer
takes. At the end every job must have the result that the service sent.
"""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from orchestrator.views.status import Summary
from tests.benchmarks.processes import ROOT, Verdict, orchestrator, stand_in
from tests.benchmarks.runs import run_flags, write_input
from tests.benchmarks.stand_in import Behaviour, Observed
from tests.hostile.requests import EVIL
from tests.hostile.strangers import READY, Plan, Tally

RESULT: Final = b'"output":{"text":"a caption of some forty letters and no more"}'
RUN_S_MAX: Final = 600.0
STOP_S_MAX: Final = 60.0


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What one run showed. `tally` is None where nobody attacked."""

    ended: Verdict
    seen: Observed
    tally: Tally | None
    changed: int
    """Jobs whose outcome is not the one result that the service sent."""


def measure(
    jobs: int,
    *,
    per_s: int,
    slow: int = 0,
    floods: int = 0,
    seconds: float | None = None,
    open_files: int | None = None,
) -> Found:
    """Runs `jobs` jobs at `per_s` a second, attacked by `slow` slow connections and `floods` senders of each kind, for
    `seconds` or to the end.

    `open_files` is the most that the program may have open, by default what the system lets it.
    """
    with TemporaryDirectory() as name:
        folder, port = Path(name), _free_port()
        write_input(folder / "input.jsonl", jobs)
        arguments = ["run", "input.jsonl", "--output", "results.jsonl", "--listen", f"127.0.0.1:{port}"]
        arguments += ["--limit", f"run={per_s * 10}/10:1000"]
        with stand_in(Behaviour(webhooks=True, hooks_kept=False)) as service:
            command = [*arguments, *run_flags(service.url)]
            if slow or floods:
                plan = Plan(port=port, ledger=str(folder / "ledger.db"), slow=slow, floods=floods, seconds=seconds)
                with _strangers(plan) as strangers:
                    ended = _ran(command, folder, open_files)
                    tally = msgspec.json.decode(strangers.communicate(timeout=STOP_S_MAX)[0], type=Tally)
            else:
                ended, tally = _ran(command, folder, open_files), None
            seen = service.stop()
        return Found(ended=ended, seen=seen, tally=tally, changed=_changed(jobs, ended, folder))


def _ran(arguments: list[str], folder: Path, open_files: int | None) -> Verdict:
    """What the program took."""
    return orchestrator(arguments, folder=folder, seconds_max=RUN_S_MAX, open_files=open_files)


@contextmanager
def _strangers(plan: Plan) -> Iterator["subprocess.Popen[bytes]"]:
    """They are ready to attack before the program has begun: a short run would be over before."""
    command = [sys.executable, "-m", "tests.hostile.strangers", msgspec.json.encode(plan).decode()]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.read(len(READY)) == READY
            yield process
        finally:
            process.kill()


def _changed(jobs: int, ended: Verdict, folder: Path) -> int:
    """How many jobs have not the one result that the service sent; raises AssertionError where the run went wrong."""
    assert ended.exit_code == 0, ended.stderr
    summary = msgspec.json.decode(ended.stdout, type=Summary)
    assert summary.requests["run"] == jobs, summary
    with (folder / "results.jsonl").open("rb") as results:
        sound = sum(1 for line in results if RESULT in line and EVIL not in line)
    return jobs - sound


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])
