"""`orchestrator emulate` as a process of its own, for as long as a block lasts."""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from tests.system.processes import SECONDS_MAX, Desk


@contextmanager
def emulated(desk: Desk, *options: str, within_s: float = SECONDS_MAX) -> Iterator[str]:
    """Its URL; it ends in order, with its workers. `within_s` is how long it may take until it has ended."""
    program = desk.start("emulate", "--port", "0", *options, within_s=within_s)
    try:
        found = re.search(r"http://[0-9.:]+", program.until_said("serving"))
        assert found is not None
        yield found[0]
    finally:
        program.signal(signal.SIGINT)
        ended = program.ended()
    assert ended.exit_code == 0, ended
