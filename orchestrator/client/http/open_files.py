"""How many requests may be under way at once, by what the system lets the process open.

Every connection takes a file descriptor, out or in, and so does the ledger. Common systems allow 1,024 (macOS 256)
unless a process asks for more, which it may up to a hard limit.
"""

import resource
from typing import Final

DESCRIPTORS_WANTED: Final = 65_536
"""More than any limits here could use; the system's hard limit is mostly less."""

RESERVED: Final = 64
"""For the ledger, whose connections are all open from the start, for inputs and outputs, and for looking up names."""

LISTENER_SHARE: Final = 4
"""A listener takes one in so many."""


def open_files_allowed(wanted: int = DESCRIPTORS_WANTED) -> int:
    """How many files this process may have open; raised to `wanted` as far as the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    reachable = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft >= reachable:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (reachable, hard))
    except (ValueError, OSError):  # macOS names hard limits that it does not grant
        return soft
    return reachable


def listener_part(open_files: int) -> int:
    """What a process that may have `open_files` leaves to its listener."""
    return max(1, open_files // LISTENER_SHARE)


def requests_part(open_files: int, *, listens: bool) -> int:
    """How many requests may be under way at once in a process that may have `open_files`."""
    return max(1, open_files - RESERVED - (listener_part(open_files) if listens else 0))
