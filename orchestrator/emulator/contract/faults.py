"""Faults on request: which there are (500s, 429s, lost jobs, cut connections ...), how often each strikes, and how
often it did.

Each fault has a generator of its own, seeded from the one passed in and from its name, so that switching one on does
not move the strikes of the others, nor does a fault that this program learns later. A spell raises rates for a while.

A fault strikes where what it spoils is made: an answer in `emulator.http.wire`, what jobs and workers do in
`emulator.jobs`, a webhook in `emulator.jobs.webhook_schedule`.
"""

import math
import random
from collections.abc import Mapping, Sequence
from enum import StrEnum, auto
from typing import TypeVar

import msgspec

from orchestrator.errors import UsageError
from orchestrator.units import SECOND_US

T = TypeVar("T")

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""What some programs, and proxies that write an answer anew, begin text with."""


class Fault(StrEnum):
    """A fault, by the name of its rate in `Faults`."""

    LOST_ANSWER = auto()
    LOST_REQUEST = auto()
    RESET = auto()
    THROTTLED = auto()
    SERVER_ERROR = auto()
    SERVER_ERROR_AFTER = auto()
    BARE_ERROR = auto()
    LOST_JOB = auto()
    STUCK_IN_QUEUE = auto()
    DUPLICATE_DISPATCH = auto()
    EMPTY_OUTPUT = auto()
    HANDLER_ERROR = auto()
    DUPLICATE_WEBHOOK = auto()
    LATE_WEBHOOK = auto()
    LOST_WEBHOOK = auto()
    STUCK_WORKER = auto()
    DEAD_WORKER = auto()
    NOT_JSON = auto()
    CUT_ANSWER = auto()
    SLOW_ANSWER = auto()
    EMPTY_ANSWER = auto()
    HALF_ANSWER = auto()
    BOMB_ANSWER = auto()
    UNAUTHORIZED = auto()
    SLOW_RUN = auto()
    HIDDEN_HEALTH = auto()
    OTHER_RECORD = auto()
    REPEATED_ID = auto()
    ABSURD_TIMES = auto()
    SHORT_RETENTION = auto()
    AMNESIA = auto()
    OTHER_WEBHOOK = auto()
    OTHER_ID_WEBHOOK = auto()
    CONTRARY_WEBHOOK = auto()
    KILLED_WORKER = auto()
    STALE_PROGRESS = auto()
    LONG_PAUSE = auto()
    NEIGHBOUR = auto()
    MARKED_ANSWER = auto()
    STRANGE_TEXT = auto()
    STUCK_BATCH = auto()
    STUCK_REQUEST = auto()
    FAILED_BATCH = auto()
    REPEATED_APPEND = auto()
    NO_MACHINES = auto()
    STUCK_POD = auto()
    MUTE_POD = auto()
    FAILED_POD = auto()
    VANISHED_POD = auto()
    MISSING_PART = auto()
    PAGE_LINK = auto()
    CUT_LINK = auto()
    GONE_LINK = auto()
    SWALLOWED_REQUEST = auto()


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """How often each fault strikes: 0 never, 1 always.

    Raises UsageError for a rate outside 0 to 1.
    """

    lost_answer: float = 0.0
    """A job is accepted, or a pod, a template and the like changed, and the connection is cut instead of answering."""
    lost_request: float = 0.0
    """The connection is cut before anything is done."""
    reset: float = 0.0
    """The connection is reset before anything is done."""
    swallowed_request: float = 0.0
    """Nothing is done, no answer comes, and the connection stays open until the client gives up."""
    throttled: float = 0.0
    """A 429 that no limit has caused."""
    server_error: float = 0.0
    """A 500, and nothing is done."""
    server_error_after: float = 0.0
    """The same as `lost_answer`, and the answer is a 500."""
    bare_error: float = 0.0
    """The answer is a 2xx, and its body nothing but `{"error": "..."}`."""
    lost_job: float = 0.0
    """A job is accepted and at once forgotten: 404 from then on, never executed."""
    stuck_in_queue: float = 0.0
    """A job stays IN_QUEUE until its time to live is over."""
    duplicate_dispatch: float = 0.0
    """A job is given to a second worker, too. Both are paid, and the first result counts."""
    empty_output: float = 0.0
    """A job is COMPLETED without the output that its handler returned."""
    handler_error: float = 0.0
    """A job is FAILED although its handler succeeded."""
    duplicate_webhook: float = 0.0
    late_webhook: float = 0.0
    """A webhook is first tried `late_webhook_s` after the job's end."""
    lost_webhook: float = 0.0
    stuck_worker: float = 0.0
    """A job stays IN_PROGRESS until its execution times out."""
    dead_worker: float = 0.0
    """A worker falls silent. After `silence_s` its job is queued again once, and fails the second time."""
    not_json: float = 0.0
    """The answer's body is an HTML page."""
    cut_answer: float = 0.0
    """The connection is cut in the middle of the answer's body."""
    slow_answer: float = 0.0
    """The answer is held back for `slow_answer_s` after everything is done."""
    empty_answer: float = 0.0
    """The answer has its status and no body."""
    half_answer: float = 0.0
    """The answer ends after half of its body, as if that were all."""
    bomb_answer: float = 0.0
    """The answer is a few kilobytes, packed by zstd, and unpacks to `bomb_bytes`."""
    unauthorized: float = 0.0
    """A 401 that no key has caused, and nothing is done."""
    slow_run: float = 0.0
    """The answer to a `/run` is held back for `slow_answer_s`: the webhook may come before it."""
    hidden_health: float = 0.0
    """`/health` answers 404."""
    other_record: float = 0.0
    """`/status` shows the record of another job of the endpoint."""
    repeated_id: float = 0.0
    """`/run` answers with the id of an earlier job; the new one has an id of its own, which nobody is told."""
    absurd_times: float = 0.0
    """`delayTime` and `executionTime` are no such times: 1e400, 2^53-1, negative, a text."""
    short_retention: float = 0.0
    """A finished job is kept for `kept_share` of the retention."""
    amnesia: float = 0.0
    """A question about a job finds that the endpoint has forgotten all of its jobs."""
    other_webhook: float = 0.0
    """A webhook brings the record of another job of the endpoint."""
    other_id_webhook: float = 0.0
    """A webhook brings its own job's record with the id of another."""
    contrary_webhook: float = 0.0
    """A completed job is announced twice: as it is, and as FAILED; which comes first is chance."""

    killed_worker: float = 0.0
    """A worker is taken away at some time before `killed_after_s` is over: its job, if not done by then, has FAILED."""
    stale_progress: float = 0.0
    """An update of a job in progress is overtaken by the one before it, which is what is shown until the next."""

    marked_answer: float = 0.0
    """The JSON of an answer or a webhook begins with a byte order mark."""
    strange_text: float = 0.0
    """The error in an answer or a webhook begins with U+0000 and half of a character."""
    long_pause: float = 0.0
    """A 429 that no limit has caused, with the wish (`Retry-After`) that no such request comes for `long_pause_s`."""

    stuck_batch: float = 0.0
    """A batch is FINALIZED for ever, and nothing of it is executed."""
    stuck_request: float = 0.0
    """A request of a batch stays IN_QUEUE for ever, until its batch is cancelled."""
    failed_batch: float = 0.0
    """A batch FAILED, before its first request has ended or any time until its last has; the rest is cancelled."""
    repeated_append: float = 0.0
    """An append is taken twice, as after a proxy that has repeated it."""

    no_machines: float = 0.0
    """A pod is not created, or not started: there is no machine for it."""
    stuck_pod: float = 0.0
    """A pod is PROVISIONING for ever."""
    mute_pod: float = 0.0
    """A pod is RUNNING, and nothing ever listens at its ports."""
    failed_pod: float = 0.0
    """A pod is in ERROR some time before `pod_ends_after_s` is over."""
    vanished_pod: float = 0.0
    """A pod is gone by then, as if somebody had terminated it."""
    missing_part: float = 0.0
    """An output that is a list, or has one, of several parts lacks the last of them."""
    page_link: float = 0.0
    """A file of `/emulator/files` is a page of HTML, with a 200; it is cut in the middle; it is answered 403."""
    cut_link: float = 0.0
    gone_link: float = 0.0

    neighbour: float = 0.0
    """Somebody else sends so much of each limit, evenly, with the same key: it counts, and what is too much is 429."""

    def __post_init__(self) -> None:
        for fault in Fault:
            if not 0.0 <= self.rate(fault) <= 1.0:
                raise UsageError(f"fault {fault}: the rate {self.rate(fault)} is not between 0 and 1")

    def rate(self, fault: Fault) -> float:
        rate: float = getattr(self, fault)
        return rate


class Spell(Rates, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From `from_s` on, for `for_s` seconds, these rates hold where they are the higher ones."""

    from_s: float
    for_s: float


class Faults(Rates, frozen=True, kw_only=True):
    """How often each fault strikes, what those that take time take, and spells during which some strike more often.

    Raises UsageError for a rate outside 0 to 1.
    """

    late_webhook_s: float = 60.0
    silence_s: float = 40.0
    slow_answer_s: float = 5.0
    killed_after_s: float = 60.0
    pod_ends_after_s: float = 120.0
    kept_share: float = 1 / 6
    bomb_bytes: float = 2.0**30
    long_pause_s: float = 3_600.0
    spells: tuple[Spell, ...] = ()
    """They count from when the service began."""


class FaultDice:
    """Decides by chance when a fault strikes, and counts the strikes. `faults` may be replaced at any time.

    `since` is when the service began (µs), from which spells count. Whoever has spells calls `pass_to` at `next_at` at
    the latest; a `World` does so at its steps.
    """

    def __init__(self, faults: Faults, rng: random.Random, *, since: int = 0) -> None:
        self._since = since
        self._now = since
        seed = rng.getrandbits(64)
        self._chances = {fault: random.Random(f"{seed} {fault}") for fault in Fault}  # noqa: S311
        self._strikes = dict.fromkeys(Fault, 0)
        self.faults = faults

    @property
    def faults(self) -> Faults:
        return self._faults

    @faults.setter
    def faults(self, faults: Faults) -> None:
        self._faults = faults
        self._look()

    def pass_to(self, now: int) -> None:
        """It is `now`: spells begin and end."""
        self._now = now
        if self._changes_at is not None and now >= self._changes_at:
            self._look()

    def next_at(self) -> int | None:
        """When the next spell begins or ends (µs); None if none will."""
        return self._changes_at

    def strikes(self, fault: Fault) -> bool:
        """Whether `fault` strikes this time; a strike is counted."""
        rate = self._rates.get(fault)
        if rate is None or self._chances[fault].random() >= rate:
            return False
        self._strikes[fault] += 1
        return True

    def rate(self, fault: Fault) -> float:
        """How often `fault` strikes now, or how much of it there is."""
        return self._rates.get(fault, 0.0)

    def share(self, fault: Fault) -> float:
        """A number from 0 to 1, by the fault's own chance."""
        return self._chances[fault].random()

    def choice(self, fault: Fault, options: Sequence[T]) -> T:
        """One of the options, by the fault's own chance."""
        return self._chances[fault].choice(options)

    def counts(self) -> Mapping[Fault, int]:
        """How often each fault has struck."""
        return dict(self._strikes)

    def _look(self) -> None:
        """See which spells are on, and when that changes."""
        now_s = (self._now - self._since) / SECOND_US
        spells = self._faults.spells
        on = (self._faults, *(each for each in spells if each.from_s <= now_s < each.from_s + each.for_s))
        rates = {fault: max(each.rate(fault) for each in on) for fault in Fault}
        # Only those that strike at all: each request asks about a dozen.
        self._rates = {fault: rate for fault, rate in rates.items() if rate}
        edges = [edge for each in spells for edge in (each.from_s, each.from_s + each.for_s) if edge > now_s]
        self._changes_at = self._since + math.ceil(min(edges) * SECOND_US) if edges else None
