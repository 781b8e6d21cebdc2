"""What is known of a world: what its program did and said, and what its services know."""

import itertools
import json
import math
import traceback
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from pathlib import Path

import msgspec

from orchestrator.emulator.batches.batch_records import BatchStatus
from orchestrator.emulator.batches.batches import Batches
from orchestrator.emulator.http.gate import Gate
from orchestrator.errors import leading
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.units import SECOND_US
from orchestrator.views.status import Summary
from tests.emulator.execution_counts import ExecutionCounts
from tests.simulation.account import SimulatedAccount
from tests.simulation.clock import EPOCH_AT, STILL, VirtualClock
from tests.simulation.engines.facts import EnginesFacts
from tests.simulation.fates import Fate, Trace
from tests.simulation.network import Sky
from tests.simulation.plan import Plan, RunPlan, Word
from tests.simulation.pods import SimulatedPods
from tests.simulation.posted_facts import PostedFacts
from tests.simulation.receivers import Heard
from tests.simulation.saves import Outputs
from tests.simulation.world import HERE, POOL_ENDPOINTS

MEMBERS = tuple(f"{HERE}/{each}" for each in POOL_ENDPOINTS)
"""The members of a pool, as fates name them."""


class RunFacts:
    """One run. `first` is the number of its first job."""

    def __init__(self, plan: RunPlan, folder: Path, *, first: int) -> None:
        self.plan = plan
        self.numbers = range(first, first + plan.jobs)
        self.source = folder / f"{plan.name}.jsonl"
        self.output = folder / f"{plan.name}.out.jsonl"
        self.errors = folder / f"{plan.name}.errors.jsonl"
        self.processes = 0
        self.summary: Summary | None = None
        self.finished = False
        self.ended_at = 0
        """When its files were there, by the true clock."""
        self.retried_s = 0.0
        """When somebody asked last for jobs that had failed; whoever saw the run's end before did not see its end."""
        self.held: list[tuple[int, str]] = []
        """When a brake has ended a command, and what it said; the next one goes without them."""


class StrangeBatch(msgspec.Struct, frozen=True):
    """How another program has left a batch of its own."""

    id: str
    status: BatchStatus
    total: int


class Asked:
    """A command that came back to who gave it. Times are microseconds by the true clock."""

    def __init__(self, word: Word, run: int, at: int, outcome: str | None, *, refused: bool) -> None:
        self.word = word
        self.run = run
        self.at = at
        self.outcome = outcome
        self.refused = refused


class Facts:
    """What is known of a world once it has been played."""

    def __init__(self, plan: Plan, folder: Path, *, traced: bool) -> None:
        self.plan = plan
        self.folder = folder
        self.ledger = folder / "ledger.db"
        """Where the ledger is once the world has been played."""
        self.address: LedgerAddress = self.ledger
        """What processes know it by."""
        firsts = itertools.accumulate((run.jobs for run in plan.runs), initial=1)
        self.runs = [RunFacts(run, folder, first=first) for run, first in zip(plan.runs, firsts, strict=False)]
        self.outputs = None if plan.saves is None else Outputs(plan.saves, plan.seed)
        """What rows have for outputs; None: none becomes a file."""
        self.true = VirtualClock()
        self.sky = Sky(plan)
        self.trace = Trace(self.true.now, kept=traced)
        self.fates: dict[str, Fate] = {}
        self.moments: dict[int, int] = {}
        """The true time of every time that the program took for the present one."""
        self.gates: Sequence[Gate]
        """Of each service."""
        self.counts: Sequence[ExecutionCounts]
        self.said: list[str] = []
        """Everything that a person or a log saw."""
        self.lives: list[tuple[int, int]] = []
        """When each process began and ended to work on the ledger, by the true clock."""
        self.stops: list[tuple[int, RunFacts]] = []
        """When a process took going on with which run for pointless."""
        self.told: defaultdict[str, list[int]] = defaultdict(list)
        """When the program got the true result of a job of the service's."""
        self.questions: defaultdict[str, list[int]] = defaultdict(list)
        """When a question for which job left for `/status`."""
        self.unanswered: list[int] = []
        """When a question to `/status` came to nothing that may have reached the service."""
        self.pauses: list[tuple[int, int]] = []
        """From when until when the service wanted none."""
        self.own_webhooks: dict[int, int] = {}
        """When a webhook first brought the own record of which submission."""
        self.sent: list[tuple[int, bytes]] = []
        """When which input left to be executed."""
        self.ways: set[tuple[str, str, bytes]] = set()
        """To which endpoints, as fates name them, and by which operations which inputs left."""
        self.tries: Counter[Word] = Counter()
        """How often somebody began to ask for something."""
        self.asked: list[Asked] = []
        self.account: SimulatedAccount | None = None
        """Where the first run's endpoint gets its workers; None: nobody asks for others."""
        self.pods: SimulatedPods | None = None
        """Those that work for runs; None: these have endpoints."""
        self.pods_unknown: list[str] = []
        """Those that were paid when the last process had ended, and of which the ledger did not know."""
        self.pods_left: list[str] = []
        """Those that were paid when a process had come to the end of its run, while nothing was wrong any more."""
        self.heard: Sequence[Heard] = ()
        """What those who are told of runs have heard."""
        self.resent_at: int | None = None
        """When somebody asked, at the end, that what they have not taken is sent again."""
        self.strange: list[StrangeBatch] = []
        """The batches of another program, as it has left them."""
        self.batches_here: Batches
        """Those of the first service."""
        self.posted: PostedFacts | None = None
        """What programs were told that post batches; None: there are none."""
        self.engines: EnginesFacts | None = None if plan.engines is None else EnginesFacts()
        """What is known of those that share the ledger; None: one works on it at a time."""
        self.failure: str | None = None
        """Why the program, or the world, broke down."""

    def fails(self, error: BaseException) -> None:
        """The program, or the world, has broken down."""
        cause = leading(error)
        frames = traceback.extract_tb(cause.__traceback__)
        place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
        self.failure = f"{type(cause).__name__}: {str(cause).partition(chr(10))[0]}{place}"
        self.trace.say("world", "".join(traceback.format_exception(error)))

    def output_of(self, raw_input: bytes) -> bytes:
        """What a worker makes of the input of a row."""
        if self.outputs is not None and raw_input.startswith(b'{"n":'):  # and is no stranger's
            return self.outputs.output(json.loads(raw_input)["n"])
        return self.plan.output_of(raw_input)

    @property
    def finished(self) -> bool:
        """Whether every run came to its end."""
        return all(run.finished for run in self.runs)

    @property
    def accepted(self) -> Counter[bytes]:
        """How often each input of a row was taken by the services, alone or with others."""
        return Counter(itertools.chain.from_iterable(fate.rows for fate in self.fates.values()))

    @property
    def completed(self) -> Counter[Hashable]:
        """How often each input has a result at the services."""
        return sum((counts.completed for counts in self.counts), Counter())

    def up_us(self, since: int, until: int, *, at: str = "") -> int:
        """How long, between two times of the true clock, the program ran and could reach the service, or that endpoint
        of it, as fates name it.
        """
        edges = {since, until}
        member = MEMBERS.index(at) if at in MEMBERS else None
        closed = [tuple(_moment(s) for s in times) for times in self.plan.closed(member)]
        for start, end in (*self.lives, *closed):
            edges |= {start, end}
        times = sorted(at for at in edges if since <= at <= until)

        def is_up(at: int) -> bool:
            lives = any(start <= at < end for start, end in self.lives)
            return lives and not any(start <= at < end for start, end in closed)

        return sum(end - start for start, end in itertools.pairwise(times) if is_up((start + end) // 2))

    def paused_up_us(self, since: int, until: int, *, at: str = "") -> int:
        """For how much of that time the service had wanted no question."""
        paused_us = 0
        for start, end in sorted(self.pauses):
            if (begin := max(start, since)) < (end := min(end, until)):
                paused_us += self.up_us(begin, end, at=at)
                since = end
        return paused_us


def _moment(seconds: float) -> int:
    return STILL if math.isinf(seconds) else EPOCH_AT + round(seconds * SECOND_US)
