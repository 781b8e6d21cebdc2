"""SIGKILL at random moments of real processes, and what must be true of the run that was killed so often.

The service is the one of `tests/system`, in a process of its own: it loses answers and webhooks, and keeps the count of
what was paid. Nothing here asks the killed program for anything but its files.
"""

import random
import shutil
import socket
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio

from orchestrator.api.outcomes.verify import Verification, verify
from orchestrator.settings.command_requests import VerifyRequest
from tests.system.processes import Desk, Service

LEDGER: Final = "orchestrator.db"
SUFFIXES: Final = ("", "-wal")
"""The files that a crash of the machine would leave: the shared memory (`-shm`) is not one of them."""

FIRST_MOMENT: Final = 20
LAST_MOMENT_BEFORE_END: Final = 300
"""The last kill comes so many submissions before the end at the latest: a process that has ended cannot be killed."""

PATIENCE_S: Final = 600.0
"""For the last process of a run, on a machine with much else to do."""

FAST: Final = ("--uncertain-after", "300ms", "--limit", "run=600/1:40", "--limit", "status=2000/1:200")


@dataclass(frozen=True, kw_only=True)
class Killed:
    """What a run came to that was killed again and again, and then let finish."""

    jobs: int
    kills: int
    claimed: int
    """Jobs that were claimed and had no answer in the ledger when the process died, over all kills."""

    in_flight: int
    """Those whose request was really at the service then: it has answered, or was about to."""

    connecting: int
    """Connections that were made for a request which did not come any more."""

    has_marks: bool
    """Whether each process found the marks of the one before."""

    dropped: int
    """Answers that the service lost."""

    hooks_lost: int
    paid: int
    """Submissions that the service accepted."""

    paid_twice: int
    """Submissions beyond the first of their job."""

    succeeded: int
    given_up: int
    """Jobs in the errors file because their submissions were uncertain too often."""

    uncertain: int
    adopted: int
    resubmitted: int
    lost: int
    expired: int
    corrupt: int
    """Ledgers with a finding, of those that the kills left and the last one."""

    findings: tuple[str, ...]

    def faults(self) -> list[str]:
        """What must not be, in words."""
        in_doubt = self.in_flight + self.connecting if self.has_marks else self.claimed
        rules = {
            "a job has not one outcome": self.succeeded + self.given_up != self.jobs,
            "more was paid twice than was uncertain": self.paid_twice > self.resubmitted,
            "more was uncertain than was in doubt": self.uncertain > self.dropped + in_doubt,
            "a job failed because the process was killed": self.given_up > 0,
            "an uncertain submission was not settled": self.uncertain
            != self.adopted + self.resubmitted + self.given_up,
            "something counts as lost or expired": self.lost + self.expired > 0,
            f"a ledger is damaged: {self.findings}": self.corrupt > 0,
        }
        return [what for what, is_so in rules.items() if is_so]


def killed_run(
    desk: Desk,
    service: Service,
    *,
    jobs: int,
    kills: int,
    seed: int,
    webhooks: bool,
    linger_s: float = 0.0,
    flags: Sequence[str] = (),
    spoil: Callable[[Path], object] | None = None,
) -> Killed:
    """Runs `jobs` to their end in spite of `kills`, each once a random number of submissions was accepted, and up to
    `linger_s` later. After each, `spoil` is let loose on the marks of what may have left.

    The ledger is verified as each kill has left it, and at the end together with the files.
    """
    chance = random.Random(seed)
    desk.inputs(jobs)
    # The same port each time: webhooks of a killed process's submissions reach its successor.
    listener = ("--listen", f"127.0.0.1:{_free_port()}") if webhooks else ()
    command = (
        "run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--output", "results.jsonl",
        "--json", *FAST, *listener, *flags,
    )  # fmt: skip
    claimed, audits, caught = 0, [], set[str]()
    for moment in sorted(chance.sample(range(FIRST_MOMENT, jobs - LAST_MOMENT_BEFORE_END), kills)):
        program = desk.start(*command)
        service.wait("accepted", moment)
        time.sleep(chance.uniform(0, linger_s))
        program.kill()
        claimed += desk.states().get("submitting", 0)
        audits.append(verified_copy(desk.folder))
        caught |= set(service.log()["answered"]) - known(desk.folder)  # by now it has read what was on its way
        if spoil is not None:
            spoil(desk.folder / f"{LEDGER}.sent")
    ended = desk.start(*command, within_s=PATIENCE_S).ended()
    assert ended.exit_code in (0, 1), ended
    audits.append(verified(desk.folder, files=True))
    doubts = Doubts(claimed=claimed, in_flight=len(caught), has_marks=spoil is None)
    return _tally(desk, service, ended.summary, audits, doubts, jobs=jobs, kills=kills)


class Doubts(NamedTuple):
    """What the kills caught."""

    claimed: int
    in_flight: int
    has_marks: bool


def _tally(
    desk: Desk,
    service: Service,
    summary: Any,
    audits: Sequence[Verification],
    doubts: Doubts,
    *,
    jobs: int,
    kills: int,
) -> Killed:
    failures = desk.rows("results.jsonl.errors.jsonl")
    assert sorted([*desk.ids(), *(row["custom_id"] for row in failures)]) == sorted(f"row-{n}" for n in range(jobs))
    assert {row["error"]["class"] for row in failures} <= {"uncertain"}, failures
    results = {row["output"]["echo"]["n"] for row in desk.rows()}
    accepted = Counter(each["n"] for each in service.accepted())
    uncertain = summary["uncertain"]
    return Killed(
        jobs=jobs,
        kills=kills,
        claimed=doubts.claimed,
        in_flight=doubts.in_flight,
        connecting=service.counted("unused"),
        has_marks=doubts.has_marks,
        dropped=service.counted("dropped"),
        hooks_lost=service.counted("hooks_lost"),
        paid=accepted.total(),
        paid_twice=accepted.total() - len(accepted),
        succeeded=len(results & accepted.keys()),
        given_up=len(failures),
        uncertain=uncertain["seen"],
        adopted=uncertain["adopted"],
        resubmitted=uncertain["resubmitted"],
        lost=summary["lost"],
        expired=summary["expired"],
        corrupt=sum(not audit.ok for audit in audits),
        findings=tuple(example for audit in audits for finding in audit.findings for example in finding.examples),
    )


def known(folder: Path) -> set[str]:
    """The remote ids in the ledger of `folder`, read from a copy."""
    copies = copied(folder, folder / "read")
    try:
        with closing(sqlite3.connect(copies / LEDGER)) as connection:
            return {row[0] for row in connection.execute("SELECT remote_id FROM submissions")}
    finally:
        shutil.rmtree(copies)


def verified(folder: Path, *, files: bool = False) -> Verification:
    """What `orchestrator verify` finds in the ledger of `folder`, and in its files."""
    output = folder / "results.jsonl"
    request = VerifyRequest(
        ledger=folder / LEDGER,
        output=output if files else None,
        errors=output.with_name(f"{output.name}.errors.jsonl") if files else None,
    )
    return anyio.run(partial(verify, request, lambda *_: None))


def verified_copy(folder: Path) -> Verification:
    """The same for a copy of the ledger: looking must not tidy up after the crash."""
    copies = copied(folder, folder / "audited")
    try:
        return verified(copies)
    finally:
        shutil.rmtree(copies)


def copied(folder: Path, to: Path) -> Path:
    """The files of the ledger, as a crash leaves them, in the new folder `to`."""
    to.mkdir()
    for suffix in SUFFIXES:
        if (source := folder / f"{LEDGER}{suffix}").exists():
            shutil.copy(source, to / source.name)
    return to


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])
