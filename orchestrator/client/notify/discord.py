"""A webhook of Discord takes a content of 2,000 characters, and mentions nobody where it is told so."""

import re
from typing import Final

import msgspec

from orchestrator.client.notify.delivery import Outgoing
from orchestrator.core.pipelines.message_text import Letter, filled

CONTENT_CHARS_MAX: Final = 2_000

_NO_EMBEDS: Final = 4
"""The flag by which links are shown as links only."""

_MARKDOWN: Final = re.compile(r"([\\*_~`|>#\[\]()@<-])")


def discord_body(message: Outgoing) -> bytes:
    """The JSON that says it."""
    letter = message.letter
    text = _content(letter) if message.template is None else filled(message.template, letter)
    content = text if len(text) <= CONTENT_CHARS_MAX else f"{text[: CONTENT_CHARS_MAX - 1]}…"
    return msgspec.json.encode({"content": content, "allowed_mentions": {"parse": []}, "flags": _NO_EMBEDS})


def _content(letter: Letter) -> str:
    parts = [f"**{_plain(letter.title)}**", _plain(letter.why)]
    parts.append(_plain(", ".join(f"{what} {value}" for what, value in letter.figures)))
    parts += [_plain(kind) for kind in letter.kinds]
    parts += [f"`{command.replace('`', chr(39))}`" for command in letter.commands]
    parts.append(f"<{letter.link}>" if letter.link else "")
    return "\n".join(filter(None, parts))


def _plain(text: str) -> str:
    """The text, of which nothing is markup."""
    return _MARKDOWN.sub(r"\\\1", text)
