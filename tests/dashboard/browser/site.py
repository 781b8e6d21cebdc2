"""The dashboard as a process, and the way in."""

import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.dashboard.showcase import LEDGER, started


@dataclass(frozen=True)
class Site:
    """A dashboard that runs. `link` signs somebody in, once."""

    link: str
    process: "subprocess.Popen[bytes]"

    @property
    def origin(self) -> str:
        return re.match(r"https?://[^/]+", self.link)[0]  # type: ignore[index]


@contextmanager
def dashboard_process(folder: Path, environment: Mapping[str, str], *words: str) -> Iterator[Site]:
    """`orchestrator dashboard` over the ledger in `folder`, at a free port, until the block ends."""
    words = ("dashboard", "--listen", "127.0.0.1:0", *words, "--ledger", LEDGER)
    with started(words, folder, environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(rb"https?://127\.0\.0\.1:\d+\S*", line):
                yield Site(link=found[0].decode(), process=process)
                return
        raise AssertionError("the dashboard does not say where it is")
