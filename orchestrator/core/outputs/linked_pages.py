"""Whether a link leads to a page of HTML, as servers answer in place of a file that is not to be had, with a 200: that
one is to sign in, say, or that there is no such file. Such a page is no file, unless it is to be called one.
"""

import codecs
import re
from typing import Final

HEAD_BYTES: Final = 1_024
"""So much of what comes is looked at."""

_BEGINS: Final = re.compile(rb"<(!doctype\s+html|html)\b", re.IGNORECASE)
_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
_ENDINGS: Final = (".html", ".htm", ".xhtml")


def is_page(head: bytes, content_type: str) -> bool:
    """Whether it is one that begins with `head`, and of which its server says `content_type`."""
    begins = head.removeprefix(codecs.BOM_UTF8).lstrip()
    is_said = content_type.partition(";")[0].strip().lower() in _TYPES
    return begins.startswith(b"<") if is_said else _BEGINS.match(begins) is not None


def is_called_page(name: str) -> bool:
    """Whether a file of that name is to be a page."""
    return name.lower().endswith(_ENDINGS)
