"""Tells whoever started the program how it is, where that is wanted: the datagrams of systemd's `sd_notify`."""

import os
import socket
from contextlib import suppress

READY = "READY=1"
STOPPING = "STOPPING=1"
ALIVE = "WATCHDOG=1"


def notify(state: str) -> None:
    """Says `state` to the socket that `NOTIFY_SOCKET` names. That nobody listens any more is no reason to stop."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):  # Linux's abstract namespace
        address = f"\0{address[1:]}"
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
        out.setblocking(False)
        out.sendto(state.encode(), address)


def alive_every_s() -> float | None:
    """How often to say that we are alive: twice in the time that the service manager waits. None where it does not."""
    wanted, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not wanted.isdecimal() or int(wanted) == 0 or pid not in ("", str(os.getpid())):
        return None
    return int(wanted) / 2_000_000
