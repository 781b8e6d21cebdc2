"""The dashboard as a process, and the way in."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.dashboard.showcase import LEDGER, started


@dataclass(frozen=True)
class Site:
    """A dashboard that runs."""

    origin: str
    link: str
    """Signs somebody in, once; "" where nobody has to."""

    process: "subprocess.Popen[bytes]"


@contextmanager
def dashboard_process(folder: Path, environment: Mapping[str, str], *words: str, port: int = 0) -> Iterator[Site]:
    """`orchestrator dashboard` over the ledger in `folder`, at that port, or a free one, until the block ends."""
    words = ("dashboard", "serve", "--listen", f"127.0.0.1:{port}", "--json", *words, "--ledger", LEDGER)
    with started(words, folder, environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        told = process.stdout.readline()
        assert told, (folder / "dashboard.log").read_text()
        place = json.loads(told)
        link = (place["sign_in"] or {}).get("link", "")
        yield Site(origin=place["url"].rstrip("/"), link=link, process=process)
