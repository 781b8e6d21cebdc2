"""Trouble on request: which faults there are, how often each strikes, and how often it did.

Each fault has a generator of its own, seeded from the one passed in and from its name, so that switching one on does
not move the strikes of the others, nor does a fault that this program learns later.
"""

import random
import tomllib
from collections.abc import Mapping, Sequence
from enum import StrEnum, auto
from pathlib import Path

import msgspec

from orchestrator.errors import UsageError


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


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """How often each fault strikes (0 never, 1 always), and what those that take time take.

    Raises UsageError for a rate outside 0 to 1.
    """

    lost_answer: float = 0.0
    """A job is accepted, or a pod, a template and the like changed, and the connection is cut instead of answering."""
    lost_request: float = 0.0
    """The connection is cut before anything is done."""
    reset: float = 0.0
    """The connection is reset before anything is done."""
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

    late_webhook_s: float = 60.0
    silence_s: float = 40.0
    slow_answer_s: float = 5.0

    def __post_init__(self) -> None:
        for fault in Fault:
            if not 0.0 <= self.rate(fault) <= 1.0:
                raise UsageError(f"fault {fault}: the rate {self.rate(fault)} is not between 0 and 1")

    def rate(self, fault: Fault) -> float:
        rate: float = getattr(self, fault)
        return rate


def read_faults(path: Path | None, given: Sequence[str] = ()) -> Faults:
    """The faults of a TOML file whose keys are those of `Faults`, and over them those of `name=number` texts.

    Raises UsageError for a file that cannot be read, and for an unknown name, with the names there are.
    """
    values: dict[str, object] = {}
    if path is not None:
        try:
            values.update(tomllib.loads(path.read_text(encoding="utf-8")))
        except OSError as error:
            raise UsageError(f"faults file {path}: cannot be read ({error.strerror})") from error
        except ValueError as error:
            raise UsageError(f"faults file {path}: {error}") from error
    for text in given:
        name, equals, number = text.partition("=")
        if not equals:
            raise UsageError(f"fault {text!r}: write it as NAME=RATE")
        try:
            values[name.strip()] = float(number)
        except ValueError:
            raise UsageError(f"fault {text!r}: {number!r} is not a number") from None
    try:
        return Faults(**msgspec.structs.asdict(msgspec.convert(values, _StrictFaults)))
    except msgspec.ValidationError as error:
        names = ", ".join(Faults.__struct_fields__)
        raise UsageError(f"faults: {error}; the names are {names}") from None


class _StrictFaults(Faults, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same, and a slip of the pen is an error."""


class FaultDice:
    """Decides by chance when a fault strikes, and counts the strikes. `faults` may be replaced at any time."""

    def __init__(self, faults: Faults, rng: random.Random) -> None:
        self._faults, self._rates = faults, _rates(faults)
        seed = rng.getrandbits(64)
        self._chances = {fault: random.Random(f"{seed} {fault}") for fault in Fault}  # noqa: S311
        self._strikes = dict.fromkeys(Fault, 0)

    @property
    def faults(self) -> Faults:
        return self._faults

    @faults.setter
    def faults(self, faults: Faults) -> None:
        self._faults, self._rates = faults, _rates(faults)

    def strikes(self, fault: Fault) -> bool:
        """Whether `fault` strikes this time; a strike is counted."""
        rate = self._rates.get(fault)
        if rate is None or self._chances[fault].random() >= rate:
            return False
        self._strikes[fault] += 1
        return True

    def counts(self) -> Mapping[Fault, int]:
        """How often each fault has struck."""
        return dict(self._strikes)


def _rates(faults: Faults) -> Mapping[Fault, float]:
    """Of those faults that strike at all: each request asks about a dozen."""
    return {fault: faults.rate(fault) for fault in Fault if faults.rate(fault)}
