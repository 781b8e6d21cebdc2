"""How many connections the listener may hold, by what the system lets the process open.

Every connection takes a file descriptor, and so do the ledger and each request to the service. Common systems allow
1,024 (macOS 256) unless a process asks for more, which it may up to a hard limit.
"""

import resource
from typing import Final

from orchestrator.web.connection import CONNECTIONS_MAX

DESCRIPTORS_WANTED: Final = 4_096
LISTENER_SHARE: Final = 4
"""The listener takes one in so many; the rest is for the ledger, and for the requests to the service."""


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


def connections_allowed(open_files: int) -> int:
    """The most connections of a listener in a process that may have `open_files`."""
    return max(1, min(CONNECTIONS_MAX, open_files // LISTENER_SHARE))
