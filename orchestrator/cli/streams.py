"""Standard streams that were closed when the program began (`<&-`, a service manager that gives none).

The next file that is opened would get the number of a closed one: messages for people would be written into the ledger,
or the event loop gives up, which never closes these numbers.
"""

import os
import sys
from typing import Final

_STREAMS: Final = (("stdin", os.O_RDONLY, "r"), ("stdout", os.O_WRONLY, "w"), ("stderr", os.O_WRONLY, "w"))
"""By their numbers."""


def open_streams() -> None:
    """Puts `/dev/null` in the place of each closed one. To be called before anything is opened."""
    for number, (name, flags, mode) in enumerate(_STREAMS):
        if not _is_open(number):
            null = os.open(os.devnull, flags)  # the lowest free number, and that is this one
            assert null == number
            os.set_inheritable(null, True)  # as the others are: it belongs to child processes, too
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", errors="replace", closefd=False))


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
