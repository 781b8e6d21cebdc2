"""`python -m tests.failover.wrong_clock ARGUMENTS`: the program, on a machine whose clock is wrong.

The variable `OFFSET` names a file of eight bytes: by how many nanoseconds the clock is ahead. Whoever writes it sets the
clock, at any moment. The time that has elapsed is right, as it is on such machines.
"""

import mmap
import os
import struct
import time
from pathlib import Path
from typing import Final

OFFSET: Final = "TESTS_CLOCK_OFFSET"
_NUMBER: Final = struct.Struct("=q")


class WrongClock:
    """That of a machine, kept in the file at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.set_s(0.0)

    def set_s(self, ahead_s: float) -> None:
        """From now on it is ahead by so many seconds."""
        told = _NUMBER.pack(round(ahead_s * 1e9))
        with self.path.open("r+b" if self.path.exists() else "wb") as file:
            file.write(told)


def main() -> None:
    """Sets this process's clock before anything of the program is loaded, which keeps what tells the time."""
    with Path(os.environ[OFFSET]).open("rb") as file:
        offset = mmap.mmap(file.fileno(), _NUMBER.size, prot=mmap.PROT_READ)
    right_ns = time.time_ns  # noqa: TID251  here it is what the system says that is wrong

    def wrong_ns() -> int:
        return right_ns() + int(_NUMBER.unpack(offset)[0])

    time.time_ns = wrong_ns  # noqa: TID251
    time.time = lambda: wrong_ns() / 1e9  # noqa: TID251
    from orchestrator.cli import main as program

    program()


if __name__ == "__main__":
    main()
