"""What needs a person, as people read it: in one line, and each with its cause."""

from collections.abc import Iterator, Sequence
from typing import Final

from orchestrator.cli.output import streams, tables
from orchestrator.core.text import wording
from orchestrator.core.text.figures import second
from orchestrator.views.pages.needs import NeedLine

NEEDS_NAMED_MAX: Final = 3
"""So many of what needs somebody are named in the one line that there is for them."""


def needs_line(needs: Sequence[NeedLine]) -> str:
    """All of them in a line; empty where nobody is needed."""
    if not needs:
        return ""
    named = [f"{need.name} ({need.kind})" for need in needs[:NEEDS_NAMED_MAX]]
    more = [f"{len(needs) - NEEDS_NAMED_MAX:,} more"] if len(needs) > NEEDS_NAMED_MAX else []
    verb = "needs" if len(needs) == 1 else "need"
    all_of_them = f"{wording.counted(len(needs), 'thing')} {verb} you: {', '.join(named + more)}"
    return f"{all_of_them}; what, and what helps: orchestrator status --needs"


def needs_text(needs: Sequence[NeedLine]) -> str:
    """Each with its cause and with what helps, the most urgent first."""
    return tables.drawn(tables.lines((need.kind.value, "\n".join(_told(need))) for need in needs))


def _told(need: NeedLine) -> Iterator[str]:
    since = "" if need.since is None else f", since {second(need.since)} UTC"
    more = f" and {need.more:,} more" if need.more else ""
    yield f"{streams.shown(need.name)}{more}{since}"
    if need.expires_at is not None:
        yield f"the first result may be gone at {second(need.expires_at)} UTC"
    yield from map(streams.shown, filter(None, (need.cause, *need.evidence, need.advice)))
