"""An incoming webhook of Slack takes a text, for notices, and blocks, which are shown.

`&`, `<` and `>` are what mentions and links are made with there, so these are escaped: nothing else mentions anybody.
"""

from typing import Final

import msgspec

from orchestrator.client.notify.delivery import Outgoing
from orchestrator.core.pipelines.message_text import Letter, filled, plain_text
from orchestrator.core.text.wording import shortened

SECTION_CHARS_MAX: Final = 3_000
TEXT_CHARS_MAX: Final = 4_000

_ESCAPES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def slack_body(message: Outgoing) -> bytes:
    """The JSON that says it."""
    letter = message.letter
    if message.template is not None:
        sections = [_escaped(filled(message.template, letter), SECTION_CHARS_MAX)]
        text = sections[0]
    else:
        sections, text = _sections(letter), _escaped(plain_text(letter), TEXT_CHARS_MAX)
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": each}} for each in sections if each]
    return msgspec.json.encode({"text": text, "blocks": blocks, "unfurl_links": False, "unfurl_media": False})


def _sections(letter: Letter) -> list[str]:
    head = f"*{_escaped(letter.title, 300)}*"
    if letter.why:
        head += f"\n{_escaped(letter.why, 1_200)}"
    figures = "   ".join(f"{_escaped(what, 80)}: *{_escaped(value, 200)}*" for what, value in letter.figures)
    kinds = "\n".join(_escaped(kind, 300) for kind in letter.kinds)
    commands = "\n".join(_escaped(command, 500) for command in letter.commands)
    return [
        head,
        shortened(figures, SECTION_CHARS_MAX),
        kinds,
        f"```{_cut(commands, SECTION_CHARS_MAX - 6)}```" if commands else "",
        f"<{_escaped(letter.link, 1_000)}|Look>" if letter.link else "",
    ]


def _escaped(text: str, chars_max: int) -> str:
    """So much of the text that it is no longer than that when it is escaped, without half an escape at its end."""
    found = _cut(text, chars_max).translate(_ESCAPES)
    while len(found) > chars_max:
        text = text[: max(0, len(text[:chars_max]) - (len(found) - chars_max) - 1)]
        found = text.translate(_ESCAPES)
    return found


def _cut(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else f"{text[: chars_max - 1]}…"
