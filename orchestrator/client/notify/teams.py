"""A URL of Microsoft Teams' Workflows takes a message with an adaptive card; the older connectors are gone."""

import re
from typing import Any, Final

import msgspec

from orchestrator.client.notify.delivery import Outgoing
from orchestrator.core.pipelines.message_text import Letter, filled

TEXT_CHARS_MAX: Final = 900
"""Of a block: a card must not be larger than 28 kB."""

_MARKDOWN: Final = re.compile(r"([\\*_`\[\]#<>~-])")


def teams_body(message: Outgoing) -> bytes:
    """The JSON that says it."""
    letter = message.letter
    blocks = _blocks(letter) if message.template is None else [_text(filled(message.template, letter))]
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": blocks,
    }
    if letter.link:
        card["actions"] = [{"type": "Action.OpenUrl", "title": "Look", "url": letter.link}]
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return msgspec.json.encode({"type": "message", "attachments": [attachment]})


def _blocks(letter: Letter) -> list[dict[str, Any]]:
    title = _text(letter.title) | {
        "weight": "Bolder",
        "size": "Medium",
        "color": "Good" if letter.is_good else "Attention",
    }
    facts = [{"title": _plain(what), "value": _plain(value)} for what, value in letter.figures]
    return [
        title,
        *([_text(letter.why)] if letter.why else []),
        *([{"type": "FactSet", "facts": facts}] if facts else []),
        *(_text(kind) for kind in letter.kinds),
        *(_text(command) | {"fontType": "Monospace"} for command in letter.commands),
    ]


def _text(text: str) -> dict[str, Any]:
    return {"type": "TextBlock", "text": _plain(text), "wrap": True}


def _plain(text: str) -> str:
    """The text, of which nothing is markup."""
    cut = text if len(text) <= TEXT_CHARS_MAX else f"{text[: TEXT_CHARS_MAX - 1]}…"
    return _MARKDOWN.sub(r"\\\1", cut)
