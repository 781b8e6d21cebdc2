"""Takes secrets out of what a service says: it may repeat the request, and is kept and shown.

A secret has many spellings: as it is, as it stands in a URL, in a JSON string, in a JSON string inside of one, and each
of its lines where a text is folded. All of them go.
"""

from collections.abc import Iterable
from typing import Final
from urllib.parse import quote, quote_plus

import msgspec

from orchestrator.core.responses import Answer

KEY_CHARS_HIDDEN_MIN: Final = 8
"""A shorter API key (of an emulator) may be an ordinary word of an answer."""

SECRET_CHARS_HIDDEN_MIN: Final = 4
"""A shorter secret may be part of any word, and hiding it would show where it stands."""

HIDDEN: Final = "[hidden]"


class Hiding:
    """Hides `key` and `secrets` in texts and answers."""

    def __init__(self, key: str = "", secrets: Iterable[str] = ()) -> None:
        keys = (key,) if len(key) >= KEY_CHARS_HIDDEN_MIN else ()
        self._secrets = (*keys, *secrets)
        spellings = {spelling for secret in self._secrets for spelling in _spellings(secret)}
        longest_first = sorted(spellings, key=len, reverse=True)
        self._spellings = [spelling for spelling in longest_first if len(spelling) >= SECRET_CHARS_HIDDEN_MIN]
        self._bytes = [spelling.encode("utf-8", "surrogatepass") for spelling in self._spellings]

    def __repr__(self) -> str:
        return "Hiding()"

    def also(self, secrets: Iterable[str]) -> "Hiding":
        """What hides these as well."""
        return Hiding(secrets=(*self._secrets, *secrets))

    def text(self, text: str) -> str:
        """`text` without any of them."""
        for spelling in self._spellings:
            text = text.replace(spelling, HIDDEN)
        return text

    def answer(self, answer: Answer) -> Answer:
        """`answer` without any of them in its body."""
        body = answer.body
        for spelling in self._bytes:
            body = body.replace(spelling, HIDDEN.encode())
        return answer if body is answer.body else msgspec.structs.replace(answer, body=body)


def _spellings(secret: str) -> Iterable[str]:
    for part in (secret, " ".join(secret.split()), *secret.splitlines()):
        once = _in_json(part)
        yield from (part, quote(part, safe="", errors="replace"), quote(part, errors="replace"))
        yield from (quote_plus(part, errors="replace"), once, once.replace("/", "\\/"), _in_json(once))


def _in_json(text: str) -> str:
    return msgspec.json.encode(text.encode("utf-8", "replace").decode()).decode()[1:-1]
