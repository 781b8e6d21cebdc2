"""What the rows of one stage become in the next: by a function of the user's, or as they are.

The function is called again for a row whose hand-over was cut short, so it must have no effect but what it returns.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from orchestrator.core.lifecycle import State
from orchestrator.core.pipelines import Stage
from orchestrator.core.policy import Policy
from orchestrator.engine.step_functions import Step, step_function
from orchestrator.errors import UsageError
from orchestrator.formats.jsonl import RowReader
from orchestrator.formats.rows import Row
from orchestrator.formats.values import ValueReader
from orchestrator.ledger.handovers import HandedOver, Owed
from orchestrator.ledger.input_rows import PackedRow, packed_rows
from orchestrator.user_code import UserCodeError, call, each

FAN_OUT_MAX: Final = 100_000
"""So many rows may become of one."""

TRACE_PLACES: Final = -8
"""So many of the last places where a function went wrong are told."""

_decode: Final = msgspec.json.Decoder().decode


class Made(NamedTuple):
    """What became of what a function was called with."""

    rows: Sequence[PackedRow] = ()
    error: str | None = None


class Call(NamedTuple):
    """A call that has not returned."""

    custom_id: str
    since: int
    """Microseconds UTC."""


class _NoRow(Exception):
    """What was returned is no row."""


@dataclass(kw_only=True, eq=False)
class RowMaker:
    """Of one stage. Called in a thread: the function may take its time."""

    stage: Stage
    folder: Path
    """From which the path of its function counts."""

    environ: Mapping[str, str]
    policy: Policy
    webhook_bytes: int
    body_bytes_max: int
    is_resumable: bool
    """Whether the jobs are resumable: their inputs get a member of their own then."""

    now: Callable[[], int]
    call: Call | None = field(init=False, default=None)
    """The one that is under way."""

    _step: Step | None = field(init=False, default=None)
    _changed_at: int = field(init=False, default=0)
    """Of when the file of the function was."""

    def made(self, page: Sequence[Owed]) -> list[HandedOver]:
        """What each of these rows becomes, by the function as it stands in its file now."""
        self._look_at_file()
        return [self._made(each) for each in page]

    def _made(self, owed: Owed) -> HandedOver:
        if owed.state is not State.SUCCEEDED or self.stage.gather is not None:
            return HandedOver(owed)  # it ends there
        rows, error = self._tried(owed.custom_id, owed.line, lambda: self._values(owed))
        return HandedOver(owed, rows, error)

    def gathered(self, key: str, line: int, members: Sequence[tuple[str, Owed]]) -> Made:
        """What rows become together, of which each has come from that stage: rows called after `key`."""
        reference = self.stage.step
        assert reference is not None
        self._look_at_file()

        def called() -> Iterator[Mapping[str, Any]]:
            given = [{"stage": stage, **_as_given(owed)} for stage, owed in members]
            return self._several(call(self._function(reference), given))

        return self._tried(key, line, called)

    def _tried(self, custom_id: str, line: int, values: Callable[[], Iterator[Mapping[str, Any]]]) -> Made:
        self.call = Call(custom_id, self.now())
        try:
            return Made(packed_rows(self._rows(custom_id, line, list(values()))))
        except (_NoRow, UsageError) as error:
            return Made(error=str(error))
        except UserCodeError as error:
            return Made(error=error.trace(limit=TRACE_PLACES).rstrip())
        finally:
            self.call = None

    def _values(self, owed: Owed) -> Iterator[Mapping[str, Any]]:
        if self.stage.step is not None:
            return self._several(call(self._function(self.stage.step), _as_given(owed)))
        output = _output_of(owed)
        if not isinstance(output, dict):
            raise _NoRow(f"the output of {owed.custom_id} is no object, as an input is; a step can make one of it")
        return iter([{"input": output}])

    @staticmethod
    def _several(made: Any) -> Iterator[Mapping[str, Any]]:
        match made:
            case None:
                return
            case Mapping():
                yield made
            case Iterable() if not isinstance(made, str | bytes):
                for number, value in enumerate(each(made)):
                    if number == FAN_OUT_MAX:
                        raise _NoRow(f"the step makes more than {FAN_OUT_MAX:,} rows of one")
                    yield value
            case _:
                raise _NoRow(f"the step has returned {type(made).__name__}, not a dict, None, or an iterable of dicts")

    def _look_at_file(self) -> None:
        """A function whose file has changed is loaded anew: asked for each row, that cost a third of it (measured)."""
        if self.stage.step is None:
            return
        try:
            changed_at = (self.folder / self.stage.step.rpartition(":")[0]).stat().st_mtime_ns
        except OSError:
            changed_at = 0  # loading it says what is wrong
        if changed_at != self._changed_at:
            self._changed_at, self._step = changed_at, None

    def _function(self, reference: str) -> Step:
        if self._step is None:
            self._step = step_function(reference, self.folder)
        return self._step

    def _rows(self, parent: str, line: int, values: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
        """Their ids are their parent's, with a number where there are several."""
        given = (self.environ, self.policy, self.webhook_bytes, self.body_bytes_max, self.is_resumable)
        reader = ValueReader(RowReader(*given), RowReader(*given))
        for number, value in enumerate(values):
            row = call(reader.read, number + 1, value)
            if not isinstance(row, Row):
                which = f"row {number} of it: " if len(values) > 1 else ""
                raise _NoRow(f"what the step has returned is no row: {which}{row.text}")
            custom_id = parent if len(values) == 1 else f"{parent}/{number}"
            yield msgspec.structs.replace(row, line=line, custom_id=custom_id, derived=False)


def _as_given(owed: Owed) -> Mapping[str, Any]:
    return {"custom_id": owed.custom_id, "input": _value(owed, owed.input), "output": _output_of(owed)}


def _output_of(owed: Owed) -> Any:
    return None if owed.output is None else _value(owed, owed.output)


def _value(owed: Owed, text: bytes) -> Any:
    try:
        return _decode(text)
    except (ValueError, RecursionError) as error:
        raise _NoRow(f"what came of {owed.custom_id} cannot be decoded: {error}") from None
