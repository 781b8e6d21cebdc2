"""What a message says to people: one letter, of which each kind of receiver makes a body of its own.

Messages are kept as JSON, for programs. All words that people read of them are made here.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from orchestrator.core.text.figures import money
from orchestrator.core.text.wording import counted, visible

_SAYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "started": "has started",
        "done": "is done",
        "partial": "is done, and some have no result",
        "failed": "has failed",
        "held": "is held",
        "stopped": "cannot go on",
        "stalled": "stands still",
        "will-miss": "will not be finished in time",
        "spend": "has spent most of its budget",
        "interrupted": "was interrupted",
        "recovered": "goes on",
        "abandoned": "is about to lose results: nobody works on it",
        "unavailable": "cannot be used, and nothing is sent",
        "late": "is late",
        "missed": "has missed fires",
        "paused": "fires no more: its schedule is paused",
        "test": "can reach you: this is a test",
    }
)
_SAY_TOGETHER: Final[Mapping[str, str]] = MappingProxyType(
    {"abandoned": "are about to lose results: nobody works on them"}
)
_GOOD: Final = frozenset({"started", "done", "recovered", "test"})

_OF: Final = ("run", "flow", "pipeline", "target", "ledger")
"""What a message may be of."""

_DOUBLED: Final = {"{{": "{", "}}": "}"}
_PARTS: Final = re.compile(r"\{\{|\}\}|\{[^{}]*\}")

TEMPLATE_CHARS_MAX: Final = 4_000


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """A message in words, of a line each."""

    name: str
    """Of the run, the flow or the pipeline."""

    news: str
    title: str
    """What has happened to it."""

    why: str = ""
    figures: tuple[tuple[str, str], ...] = ()
    """How many, and what it cost, each with what it is."""

    kinds: tuple[str, ...] = ()
    """The most frequent failures."""

    commands: tuple[str, ...] = ()
    """What to do, as it is typed."""

    link: str = ""
    """Where to look; empty where there is no dashboard."""

    @property
    def is_good(self) -> bool:
        """Whether nobody has to do anything."""
        return self.news in _GOOD


def letter_of(body: bytes, link: str = "") -> Letter:
    """What the message `body` says, whose commands are worded by now."""
    message: Mapping[str, Any] = msgspec.json.decode(body)
    data: Mapping[str, Any] = message["data"]
    news = str(message["type"]).partition(".")[2]
    name = _visible(next((data[of] for of in _OF if data.get(of)), ""))
    return Letter(
        name=name,
        news=news,
        title=_title(name, news, data.get("more", 0)),
        why=_visible(data.get("why", "")),
        figures=tuple(_figures(data)),
        kinds=tuple(f"{kind['n']:,} × {_visible(kind['error'])}" for kind in data.get("kinds", ())),
        commands=tuple(map(_visible, data["commands"])),
        link=link,
    )


def _title(name: str, news: str, more: int) -> str:
    """What has happened to it, and, where that is so, to others with it."""
    if more:
        return f"{name} and {more:,} more {_SAY_TOGETHER.get(news, news)}"
    return f"{name} {_SAYS.get(news, news)}"


def _visible(text: object) -> str:
    return visible(" ".join(str(text).split()))


def _figures(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    if data.get("waiting"):
        found.append(("at the service", counted(data["waiting"], "job")))
    if data.get("expires"):
        found.append(("may be gone from", _visible(data["expires"])))
    for stage in data.get("stages", ()):
        parts = [f"{stage['succeeded']:,} of {stage['rows']:,} succeeded"]
        parts += [f"{stage[word]:,} {word}" for word in ("failed", "cancelled") if stage[word]]
        found.append((_visible(stage["stage"]), ", ".join(parts)))
    if "rows" in data:
        found.append(("rows", f"{data['rows']:,}"))
        found += [
            (word, f"{data[word]:,}") for word in ("succeeded", "failed", "cancelled", "unfinished") if data.get(word)
        ]
    if data.get("fires") is not None:
        found.append(("missed", counted(data["fires"], "fire")))
    found += [(word, _visible(data[word])) for word in ("fire", "from", "to") if data.get(word)]
    if data.get("spent") is not None:
        of = f" of {money(data['budget'])}" if data.get("budget") else ""
        found.append(("spent", f"{money(data['spent'])}{of}"))
    return found


def plain_text(letter: Letter) -> str:
    """The whole letter as lines of plain text, the first of which is its title."""
    lines = [letter.title, *filter(None, [letter.why])]
    if letter.figures:
        lines += ["", *(f"{what}: {value}" for what, value in letter.figures)]
    if letter.kinds:
        lines += ["", "Failures:", *(f"  {kind}" for kind in letter.kinds)]
    if letter.commands:
        lines += ["", "What to do:", *(f"  {command}" for command in letter.commands)]
    if letter.link:
        lines += ["", letter.link]
    return "\n".join(lines)


# --- words of one's own


def parse_letter_template(template: str) -> str:
    """A text with placeholders. Raises `ValueError` for one that means nothing."""
    if not template.strip() or len(template) > TEMPLATE_CHARS_MAX:
        raise ValueError(f"a template is a text of at most {TEMPLATE_CHARS_MAX:,} characters")
    known = _values(Letter(name="", news="", title=""))
    for part in _PARTS.findall(template):
        if part not in _DOUBLED and part[1:-1] not in known:
            raise ValueError(f'"{part:.40}" means nothing; there are {", ".join(f"{{{each}}}" for each in known)}')
    left = _PARTS.sub("", template)
    if "{" in left or "}" in left:
        raise ValueError("a brace stands alone; write {{ or }} for one that means itself")
    return template


def filled(template: str, letter: Letter) -> str:
    """The template with what the letter says."""
    values = _values(letter)
    return _PARTS.sub(lambda part: _DOUBLED.get(part[0]) or values.get(part[0][1:-1], ""), template)


def _values(letter: Letter) -> Mapping[str, str]:
    return {
        "name": letter.name,
        "news": letter.news,
        "title": letter.title,
        "why": letter.why,
        "figures": ", ".join(f"{what} {value}" for what, value in letter.figures),
        "kinds": "\n".join(letter.kinds),
        "commands": "\n".join(letter.commands),
        "link": letter.link,
    }
