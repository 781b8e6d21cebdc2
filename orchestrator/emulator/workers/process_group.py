"""Ending processes that were started in a session of their own."""

import os
import signal
from contextlib import suppress

from anyio.abc import Process


def kill_session(process: Process) -> None:
    """Kill the process and its children; ended ones are fine."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
