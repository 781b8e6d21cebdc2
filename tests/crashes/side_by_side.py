"""Several processes on one ledger, one for each run, which are killed, stopped and interrupted at random moments.

One of them is the engine, the others follow; when it ends, a follower takes its place. Whoever is killed or interrupted
is started again by the same command. Meanwhile commands are asked for from further processes. The service is the one
of `tests/system`, which keeps the count of what was paid.
"""

import random
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from orchestrator.api.outcomes.verify import verify
from orchestrator.settings.command_requests import VerifyRequest
from tests.crashes.kills import FAST, LEDGER, PATIENCE_S, known
from tests.system.processes import Desk, Program, Service, Verdict, lines_of

FIRST_MOMENT: Final = 10
LAST_MOMENT_BEFORE_END: Final = 60
REJECTED: Final = 2
"""Jobs of each run that the service refuses, so that there is something to retry."""

REJECTED_IDS: Final = frozenset(f"row-{n}" for n in range(REJECTED))

ENDS: Final = frozenset({0, 1, 130, -signal.SIGKILL})
"""The exit codes that there may be."""

LEFT: Final = "jobs were queued again as this process ended"
"""What the last process says where that was asked for when it was too late for it."""

NO_RUN_YET: Final = 2

MARKED_AT_ONCE: Final = 8
"""So many requests are marked as leaving, at the most, in the turn of its loop in which a process is killed; one that was
stopped before has much to do in its first."""

ENGINE_SHARE: Final = 0.5
"""How often it is the engine that something happens to, whichever process that is."""

STOPPED_S_MAX: Final = 1.5
APART_S_MAX: Final = 0.4
"""Between the end of a process and its next start."""


class Act(StrEnum):
    """What happens at a moment."""

    KILL = "kill"
    INTERRUPT = "interrupt"
    STOP = "stop"
    COMMAND = "command"


ACTS: Final = (Act.KILL, Act.KILL, Act.INTERRUPT, Act.STOP, Act.COMMAND)

PAIRS: Final = (("pause", "continue"), ("priority", "priority"), ("retry", "retry"))
"""What is asked for, one after the other, and leaves a run to come to its end."""


@dataclass(frozen=True, kw_only=True)
class Disturbed:
    """What the runs came to."""

    runs: int
    jobs: int
    acts: Counter[str]
    taken_over: int
    """How often a follower went on in the place of a process that had ended."""

    with_outcome: int
    paid_twice: int
    resubmitted: int
    uncertain: int
    in_doubt: int
    """Lost answers, requests that were really in flight when their process ended, and connections for such."""

    asked: Counter[str]
    """Commands that were asked for by people, by action."""

    noted: Counter[str]
    """Those of these actions that are in the ledger."""

    unanswered: int
    """Commands without an acknowledgement, at the end."""

    done_twice: int
    """Jobs that were queued again more often than that was asked for."""

    odd_ends: tuple[str, ...]
    """Processes that ended as none should."""

    findings: tuple[str, ...]

    def faults(self) -> list[str]:
        """What must not be, in words."""
        rules = {
            "a job has not one outcome": self.with_outcome != self.jobs,
            "more was paid twice than is counted": self.paid_twice > self.resubmitted,
            "more was uncertain than was in doubt": self.uncertain
            > self.in_doubt + MARKED_AT_ONCE * self.acts[Act.KILL],
            f"commands were lost: {self.asked} were asked for, {self.noted} are noted": self.asked != self.noted,
            "a command was never answered": self.unanswered > 0,
            "a command was carried out twice": self.done_twice > 0,
            f"a process ended oddly: {self.odd_ends}": bool(self.odd_ends),
            f"the ledger is damaged: {self.findings}": bool(self.findings),
        }
        return [what for what, is_so in rules.items() if is_so]


@dataclass
class Member:
    """A run, and the process that was started for it."""

    name: str
    command: tuple[str, ...]
    desk: Desk
    program: Program = field(init=False)
    ends: list[Verdict] = field(default_factory=list)

    def start(self) -> None:
        self.program = self.desk.start(*self.command, within_s=PATIENCE_S)

    def ended(self) -> Verdict:
        self.ends.append(self.program.ended())
        return self.ends[-1]


class Disturbance:
    """Runs side by side, and what happens to their processes."""

    def __init__(self, desk: Desk, service: Service, *, runs: int, jobs: int, seed: int) -> None:
        self._desk = desk
        self._service = service
        self._jobs = jobs
        self._chance = random.Random(seed)
        self._acts: Counter[str] = Counter()
        self._asked: Counter[str] = Counter()
        self._members = [Member(name, self._command(name), desk) for name in "abcdefgh"[:runs]]

    def _command(self, name: str) -> tuple[str, ...]:
        rows = ({"custom_id": f"row-{n}", "run": name, "n": n, "reject": n < REJECTED} for n in range(self._jobs))
        self._desk.write(f"{name}.jsonl", lines_of(rows))
        return (
            "run", f"{name}.jsonl", "--endpoint", "ep1", "--serverless-url", self._service.url,
            "--output", f"{name}.out", "--json", *FAST,
        )  # fmt: skip

    def go_through(self, acts: int) -> Disturbed:
        """Starts them all, disturbs them so often, and lets them come to their ends."""
        for member in self._members:
            member.start()
        paid = len(self._members) * (self._jobs - REJECTED)
        for moment in sorted(self._chance.sample(range(FIRST_MOMENT, paid - LAST_MOMENT_BEFORE_END), acts)):
            self._service.wait("accepted", moment)
            self._act()
        for member in self._members:
            member.ended()
        for member in self._members:  # what was asked for meanwhile is carried out by now, and what it queued is done
            member.start()
            member.ended()
        return self._tally()

    def _act(self) -> None:
        alive = [member for member in self._members if not member.program.is_over]
        if not alive:
            return
        engine = (self._desk.folder / f"{LEDGER}.lock").read_text()
        member = self._chance.choice(alive)
        if self._chance.random() < ENGINE_SHARE:
            member = next((each for each in alive if f"process {each.program.pid} " in engine), member)
        act = self._chance.choice(ACTS)
        self._acts[act] += 1
        if act is Act.COMMAND:
            self._ask(member.name)
        elif act is Act.STOP:
            member.program.signal(signal.SIGSTOP)
            time.sleep(self._chance.uniform(0, STOPPED_S_MAX))
            member.program.signal(signal.SIGCONT)
        else:
            if act is Act.INTERRUPT:
                member.program.until_said("rows checked")  # before, nobody is there yet who would take the signal
            member.program.signal(signal.SIGKILL if act is Act.KILL else signal.SIGINT)
            member.ended()
            time.sleep(self._chance.uniform(0, APART_S_MAX))
            member.start()

    def _ask(self, run: str) -> None:
        for action in self._chance.choice(PAIRS):
            more = (str(self._chance.randint(-3, 3)),) if action == "priority" else ()
            told = self._desk.call(action, run, *more)
            if told.exit_code == NO_RUN_YET and "there is no run called" in told.stderr:
                return
            assert told.exit_code == 0, told
            self._asked[action] += 1

    def _tally(self) -> Disturbed:
        accepted = Counter((each["run"], each["n"]) for each in self._service.accepted())
        with closing(sqlite3.connect(self._desk.folder / LEDGER)) as ledger:
            noted = Counter(dict(ledger.execute("SELECT action, count(*) FROM commands GROUP BY action").fetchall()))
            [unanswered] = ledger.execute("SELECT count(*) FROM commands WHERE done_at IS NULL").fetchone()
            counts = Counter(dict(ledger.execute("SELECT name, sum(n) FROM counts GROUP BY name").fetchall()))
            reopened = ledger.execute("SELECT count(*) FROM events WHERE event = 'reopened' GROUP BY job_id").fetchall()
        caught = len(set(self._service.log()["answered"]) - known(self._desk.folder))
        ends = [(member.name, end) for member in self._members for end in member.ends]
        return Disturbed(
            runs=len(self._members),
            jobs=len(self._members) * self._jobs,
            acts=self._acts,
            taken_over=sum("goes on in its place" in end.stderr for _, end in ends),
            with_outcome=sum(self._with_outcome(member.name, accepted) for member in self._members),
            paid_twice=accepted.total() - len(accepted),
            resubmitted=counts["uncertain_resubmitted"],
            uncertain=counts["uncertain_seen"],
            in_doubt=self._service.counted("dropped") + self._service.counted("unused") + caught,
            asked=self._asked,
            noted=Counter({action: n for action, n in noted.items() if action != "serve"}),
            unanswered=unanswered,
            done_twice=sum(times > self._asked["retry"] for [times] in reopened),
            odd_ends=tuple(
                f"{name}: {end}" for name, end in ends if end.exit_code not in ENDS and LEFT not in end.stderr
            ),
            findings=tuple(self._findings()),
        )

    def _with_outcome(self, name: str, accepted: Counter[tuple[str, int]]) -> int:
        """How many jobs of a run have one line in its files, and the right one."""
        results, failures = self._desk.rows(f"{name}.out"), self._desk.rows(f"{name}.out.errors.jsonl")
        right = {
            row["custom_id"]
            for row in results
            if row["output"]["echo"]["run"] == name and f"row-{row['output']['echo']['n']}" == row["custom_id"]
        }
        right |= {row["custom_id"] for row in failures if row["error"]["class"] == "rejected"}
        paid = {f"row-{n}" for run, n in accepted if run == name}
        lines = Counter(row["custom_id"] for row in (*results, *failures))
        return sum(1 for job, n in lines.items() if n == 1 and job in right and (job in paid or job in REJECTED_IDS))

    def _findings(self) -> Sequence[str]:
        found: list[str] = []
        for member in self._members:
            output = self._desk.folder / f"{member.name}.out"
            request = VerifyRequest(
                ledger=self._desk.folder / LEDGER,
                name=member.name,
                output=output,
                errors=Path(f"{output}.errors.jsonl"),
            )
            audit = anyio.run(partial(verify, request, lambda *_: None))
            found += [example for finding in audit.findings for example in finding.examples]
        return found
