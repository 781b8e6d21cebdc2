"""What the rows of one stage become in the next: by a function of the user's (a step), or as they are.

The function is called again for a row whose hand-over was cut short, so it must have no effect but what it returns.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.lanes.via import Via
from orchestrator.core.pipelines.flow_paths import awaited_folder
from orchestrator.core.pipelines.pipeline import Stage
from orchestrator.core.service.row_variables import RowVariables
from orchestrator.core.text.durations import Policy
from orchestrator.engine.user_code.functions import NoRowError, PerformsTasks, StepCall, UserProcessDied, no_row
from orchestrator.engine.user_code.process import user_code
from orchestrator.formats.input.jsonl import RowReader
from orchestrator.formats.input.rows import Row
from orchestrator.formats.text.value_text import text_or_why
from orchestrator.ledger.flows.handover_rows import HandedOver, OwedRow
from orchestrator.ledger.runs.input_rows import PackedRow, packed_rows

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


class FolderAway(Exception):
    """The folder of the pipeline is not on this machine, so no row of the stage can be made here."""


class Made(NamedTuple):
    """What became of what a function was called with."""

    rows: Sequence[PackedRow] = ()
    error: str | None = None


class Call(NamedTuple):
    """A call that has not returned."""

    custom_id: str
    since: int
    """Microseconds UTC."""


@dataclass(kw_only=True, eq=False)
class RowMapper:
    """Of one stage. Called in a thread: the function may take its time."""

    stage: Stage
    folder: Path
    """From which the path of its function counts."""

    is_folder: Callable[[str], bool]
    """Whether that is on this machine."""

    variables: RowVariables
    policy: Policy
    webhook_bytes: int
    body_bytes_max: int
    is_resumable: bool
    """Whether the jobs are resumable: their inputs get a member of their own then."""

    now: Callable[[], int]
    vias: Sequence[Via] = (Via.QUEUE,)
    """By which lanes its jobs leave."""

    call: Call | None = field(init=False, default=None)
    """The one that is under way."""

    code: PerformsTasks = field(default_factory=user_code)
    """What calls its function."""

    _changed_at: int = field(init=False, default=0)
    """Of when the file of the function was."""

    def made(self, page: Sequence[OwedRow]) -> list[HandedOver]:
        """What each of these rows becomes, by the function as it stands in its file now. Raises `FolderAway`."""
        self._look_at_file()
        return [self._made(each) for each in page]

    def _made(self, owed: OwedRow) -> HandedOver:
        if owed.state is not State.SUCCEEDED or self.stage.gather is not None:
            return HandedOver(owed)  # it ends there
        rows, error = self._tried(owed.custom_id, owed.line, lambda: self._texts(owed))
        return HandedOver(owed, rows, error)

    def gathered(self, key: str, line: int, members: Sequence[tuple[str, OwedRow]]) -> Made:
        """What rows become together, of which each has come from that stage: rows called after `key`. Raises
        `FolderAway`.
        """
        self._look_at_file()
        given = [{"stage": stage, **_as_given(owed)} for stage, owed in members]
        return self._tried(key, line, lambda: self._called(given))

    def leave(self) -> None:
        """Lets go of its function, whatever that does: nobody waits for it any more."""
        self.code.close()

    def _tried(self, custom_id: str, line: int, texts: Callable[[], Sequence[bytes]]) -> Made:
        self.call = Call(custom_id, self.now())
        try:
            return Made(packed_rows(self._rows(custom_id, line, texts())))
        except NoRowError as error:
            return Made(error=str(error))
        except UserProcessDied as error:
            return Made(error=f"the step {self.stage.step} has not returned: {error}")
        finally:
            self.call = None

    def _texts(self, owed: OwedRow) -> Sequence[bytes]:
        if self.stage.step is not None:
            return self._called(_as_given(owed))
        try:
            output = None if owed.output is None else _decode(owed.output)
        except (ValueError, RecursionError) as error:
            raise NoRowError(f"the output of {owed.custom_id} cannot be decoded: {error}") from None
        if not isinstance(output, dict):
            raise NoRowError(f"the output of {owed.custom_id} is no object, as an input is; a step can make one of it")
        text = text_or_why({"input": output})
        if isinstance(text, str):
            raise NoRowError(no_row(0, 1, text))
        return (text,)

    def _called(self, given: object) -> Sequence[bytes]:
        """The lines that the step makes of what it is given."""
        assert self.stage.step is not None
        answer = self.code.do(StepCall(reference=str(self.folder / self.stage.step), given=_encode(given)))
        if (why := answer.refused or answer.error) is not None:
            self._look_at_file()  # with its folder gone a row has not failed
            raise NoRowError(why)
        return answer.rows

    def _look_at_file(self) -> None:
        """A function whose file has changed is loaded anew: asked for each row, that cost a third of it (measured)."""
        if self.stage.step is None:
            return
        file = Path(self.stage.step.rpartition(":")[0])
        if not file.is_absolute() and not self.is_folder(str(self.folder)):
            raise FolderAway(awaited_folder(str(self.folder)))
        try:
            changed_at = (self.folder / file).stat().st_mtime_ns
        except OSError:
            changed_at = 0  # loading it says what is wrong
        if changed_at != self._changed_at:
            self._changed_at = changed_at
            self.code.close()

    def _rows(self, parent: str, line: int, texts: Sequence[bytes]) -> Iterator[Row]:
        """Their ids are their parent's, with a number where there are several."""
        reader = RowReader(
            self.variables, self.policy, self.webhook_bytes, self.body_bytes_max, self.is_resumable, self.vias
        )
        for number, text in enumerate(texts):
            row = reader.read(number + 1, text)
            if not isinstance(row, Row):
                raise NoRowError(no_row(number, len(texts), row.text))
            custom_id = parent if len(texts) == 1 else f"{parent}/{number}"
            yield msgspec.structs.replace(row, line=line, custom_id=custom_id, derived=False)


def _as_given(owed: OwedRow) -> Mapping[str, Any]:
    output = None if owed.output is None else msgspec.Raw(owed.output)
    return {"custom_id": owed.custom_id, "input": msgspec.Raw(owed.input), "output": output}
