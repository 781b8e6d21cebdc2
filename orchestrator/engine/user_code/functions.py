"""People's steps and checks: found once each, and called, in this process, whichever that is.

It is a process of their own as a rule (see `user_process`): what they do to the folder, the environment, the signals
or the standard output of the process that they run in is nobody else's affair there. So this module loads little.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

import msgspec

from orchestrator.errors import UsageError
from orchestrator.formats.text.value_text import text_or_why
from orchestrator.user_code import UserCodeError, call, each, import_function, load_function

Step = Callable[[Any], Any]
"""Takes what is handed over; returns None for nothing, a dict for one row, or an iterable of dicts for several."""

Check = Callable[[Any], Any]
"""Takes an output; returns anything but None and False for a good one, or raises what is wrong with it."""

FAN_OUT_MAX: Final = 100_000
"""So many rows may become of one."""

TRACE_PLACES: Final = -8
"""So many of the last places where a function went wrong are told."""

_decode: Final = msgspec.json.Decoder().decode


class StepCall(msgspec.Struct, frozen=True, kw_only=True, tag="step"):
    """Has a step make rows of what it is `given`, in JSON."""

    reference: str
    """`FILE.py:FUNCTION`."""

    given: bytes


class CheckCall(msgspec.Struct, frozen=True, kw_only=True, tag="check"):
    """Has a check judge an output, in JSON."""

    reference: str
    """`FILE.py:FUNCTION`, or `MODULE:FUNCTION`."""

    called: str
    output: bytes | None


class CheckLoad(msgspec.Struct, frozen=True, kw_only=True, tag="load"):
    """Makes a check ready, as `called` in messages."""

    reference: str
    called: str


Task = StepCall | CheckCall | CheckLoad


class TaskResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a task."""

    rows: tuple[bytes, ...] = ()
    """Of a step: the lines that its rows are."""

    error: str | None = None
    """Of a step: why there are none. Of a check: what is wrong with the output."""

    refused: str | None = None
    """Why the function cannot be had."""

    died: str | None = None
    """How a check came to an end, where it did not as functions do."""


class PerformsTasks(Protocol):
    """Calls people's functions."""

    def do(self, task: Task) -> TaskResult:
        """Calls one, for as long as it takes. Raises `UserProcessDied`."""
        ...

    def close(self) -> None:
        """Lets go of them; what one does at this moment is cut off, where that can be. `do` finds them anew."""
        ...


class UserProcessDied(Exception):
    """People's code has ended the process that it ran in. Its text says how."""


class UserFunctions:
    """Those of one file, in this process."""

    def __init__(self) -> None:
        self._found: dict[str, Callable[[Any], Any]] = {}

    def do(self, task: Task) -> TaskResult:
        """Calls one; never raises."""
        try:
            match task:
                case StepCall():
                    return self._rows(task)
                case CheckCall():
                    return self._judged(self._loaded_check(task), task.output)
                case CheckLoad():
                    self._loaded_check(task)
        except UsageError as error:
            return TaskResult(refused=str(error))
        return TaskResult()

    def close(self) -> None:
        """Finds them anew, from now on."""
        self._found.clear()

    # --- steps

    def _rows(self, task: StepCall) -> TaskResult:
        step: Step = self._found.get(task.reference) or load_function(task.reference, "step")
        self._found[task.reference] = step
        try:
            given = _decode(task.given)
        except (ValueError, RecursionError) as error:
            return TaskResult(error=f"what it is to be given cannot be decoded: {error}")
        try:
            texts = [call(text_or_why, value) for value in _several(call(step, given))]
        except UserCodeError as error:
            return TaskResult(error=error.trace(limit=TRACE_PLACES).rstrip())
        except NoRowError as error:
            return TaskResult(error=str(error))
        for number, text in enumerate(texts):
            if isinstance(text, str):
                return TaskResult(error=no_row(number, len(texts), text))
        return TaskResult(rows=tuple(text for text in texts if isinstance(text, bytes)))

    # --- checks

    def _loaded_check(self, task: CheckCall | CheckLoad) -> Check:
        if task.reference not in self._found:
            place, _, name = task.reference.rpartition(":")
            if place.endswith(".py"):
                check = load_function(task.reference, task.called.partition(" ")[0])
            else:
                check = import_function(place, name, task.called)
            if inspect.iscoroutinefunction(check) or inspect.isgeneratorfunction(check):
                raise UsageError(f"{task.called}: {name} must be a plain function, neither async nor a generator")
            self._found[task.reference] = check
        return self._found[task.reference]

    @staticmethod
    def _judged(check: Check, output: bytes | None) -> TaskResult:
        try:
            value = None if output is None else _decode(output)
        except (ValueError, RecursionError) as error:
            return TaskResult(error=f"the output cannot be decoded: {error}")
        try:
            said = call(check, value)
        except UserCodeError as error:
            return TaskResult(died=f"it ended with {error}") if error.is_exit else TaskResult(error=str(error))
        return TaskResult(error=f"the check has returned {said}" if said is None or said is False else None)


class NoRowError(Exception):
    """What a step has returned is no row."""


def no_row(number: int, of: int, why: str) -> str:
    """That the row of this number is none, as its step's author is told."""
    which = f"row {number} of it: " if of > 1 else ""
    return f"what the step has returned is no row: {which}{why}"


def _several(made: Any) -> Iterator[object]:
    match made:
        case None:
            return
        case Mapping():
            yield made
        case Iterable() if not isinstance(made, str | bytes):
            for number, value in enumerate(each(made)):
                if number == FAN_OUT_MAX:
                    raise NoRowError(f"the step makes more than {FAN_OUT_MAX:,} rows of one")
                yield value
        case _:
            raise NoRowError(f"the step has returned {type(made).__name__}, not a dict, None, or an iterable of dicts")
