"""What of people's data pages may show: inputs and outputs, and what workers said, which may repeat them."""

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, Protocol

import msgspec

from orchestrator.core.filters.filter import Filter, Member, asks_message, leaves
from orchestrator.core.filters.filter_parser import FilterError, parse
from orchestrator.core.text.error_text import error_kind, summary_of
from orchestrator.errors import UsageError
from orchestrator.views.jobs import ClusterRow, JobRow
from orchestrator.views.runs.run_pages import ShownText

TEXT_BYTES_MAX: Final = 65_536
"""So much of a payload stands on a page; the whole can be kept as a file."""

_ERROR_TYPE: Final = re.compile(r"[A-Za-z_][\w.]{0,80}(?=:|$)")


class PayloadPolicy(Protocol):
    """What may be shown to whoever asks."""

    @property
    def are_hidden(self) -> bool:
        """Nothing of inputs and outputs at all."""

    @property
    def redacted(self) -> tuple[str, ...]:
        """Members that are left out, as `input.email`."""

    def shown(self, part: str, raw: bytes) -> bytes | None:
        """What may be shown of the JSON of a job's `part`; None where nothing may."""

    def may_search(self, members: Iterable[str]) -> bool:
        """Whether jobs may be looked for by these members."""


class ShowAll:
    """Everything may be shown: to whoever has the ledger's file."""

    are_hidden = False
    redacted: tuple[str, ...] = ()

    def shown(self, part: str, raw: bytes) -> bytes | None:  # noqa: ARG002  whatever part it is
        """All of it."""
        return raw

    def may_search(self, members: Iterable[str]) -> bool:  # noqa: ARG002  whichever they are
        """By any member."""
        return True


def message_shown(shows: PayloadPolicy, message: str | None) -> str | None:
    """What may be shown of what a worker said: where payloads are hidden the type of the error alone, and where some
    members are, nothing that differs from one failure of the kind to the next.
    """
    if message is None:
        return None
    if shows.are_hidden:
        found = _ERROR_TYPE.match(summary_of(message))
        return "" if found is None else found[0]
    return error_kind(message) if shows.redacted else message


def are_texts_hidden(shows: PayloadPolicy) -> bool:
    """Whether anything that workers said is kept back."""
    return shows.are_hidden or bool(shows.redacted)


def row_shown(shows: PayloadPolicy, row: JobRow) -> JobRow:
    """A job of a list, as it may be shown."""
    return msgspec.structs.replace(row, error=message_shown(shows, row.error))


def kind_shown(shows: PayloadPolicy, kind: ClusterRow) -> ClusterRow:
    """A kind of failures, as it may be shown."""
    retried = kind.retried and msgspec.structs.replace(
        kind.retried, sample=message_shown(shows, kind.retried.sample) or ""
    )
    return msgspec.structs.replace(kind, sample=message_shown(shows, kind.sample) or "", retried=retried)


def check_filter(shows: PayloadPolicy, chosen: Filter) -> None:
    """Raises `UsageError` where an answer would tell what is not to be shown."""
    asked = [leaf for leaf in leaves(chosen) if isinstance(leaf, Member)]
    named = [f"{'metadata' if leaf.of_metadata else 'input'}.{'.'.join(leaf.path)}" for leaf in asked]
    tells_texts = asks_message(chosen) and are_texts_hidden(shows)
    if tells_texts or (shows.are_hidden and named) or not shows.may_search(named):
        raise UsageError("inputs, outputs and messages are hidden here, so that jobs cannot be looked for by them")


def check_where(shows: PayloadPolicy, where: str, now: int) -> None:
    """The same of a filter as it was written: how many jobs it means would tell, too. What is none passes."""
    with suppress(FilterError):
        check_filter(shows, parse(where, now=now))


def payload_shown(shows: PayloadPolicy, part: str, raw: bytes | None) -> ShownText:
    """The beginning of an input or output, indented where it is JSON."""
    if raw is None:
        return ShownText(text=None, size=0)
    visible = shows.shown(part, raw)
    if visible is None:
        return ShownText(text=None, size=len(raw), is_hidden=True)
    return text_shown(_indented(visible), size=len(raw))


def _indented(raw: bytes) -> str:
    """JSON on lines that people can read; only as much as is shown, since indenting takes time."""
    if len(raw) > TEXT_BYTES_MAX:
        return raw.decode(errors="replace")
    try:
        return msgspec.json.format(raw, indent=2).decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return raw.decode(errors="replace")


def text_shown(text: str, *, size: int | None = None) -> ShownText:
    """The beginning of a text; `size` is that of the whole, where it was formatted since."""
    whole = text.encode("utf-8", "replace")
    beginning = whole[:TEXT_BYTES_MAX].decode("utf-8", "ignore")
    return ShownText(text=beginning, size=len(whole) if size is None else size, is_whole=len(whole) <= TEXT_BYTES_MAX)
