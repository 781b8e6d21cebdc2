"""A batch as programs for OpenAI's Batch API have them: posted, asked for and read by OpenAI's own client, at a `serve`
and an emulator in processes of their own. No request is like another one.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.benchmarks.figures import Figure
from tests.system.batch_api_server import ASK_EVERY_S, ended, expected, made, said, server, text_of
from tests.system.processes import Desk

ROWS: Final = 50_000
"""As many as OpenAI takes."""

MB_MAX: Final = 250.0
SECONDS_MAX: Final = 3_600.0


def batch_api(rows: int = ROWS) -> list[Figure]:
    """From the first byte of the upload to the last one of the results, and what `serve` had of memory."""
    numbers = range(rows)
    text = text_of(numbers)
    with TemporaryDirectory() as name, server(Desk(Path(name)), within_s=SECONDS_MAX) as at:
        client = at.client()
        began = time.perf_counter()
        batch = made(client, text)
        posted_s = time.perf_counter() - began
        batch = ended(client, batch, asks_max=int(SECONDS_MAX / ASK_EVERY_S))
        ended_s = time.perf_counter() - began
        found = said(client, batch)
        read_s = time.perf_counter() - began - ended_s
        peak_mb = at.peak_mb
    assert batch.status == "completed", batch
    assert found == expected(numbers)

    def figure(name: str, value: float, unit: str, *, at_most: float | None = None) -> Figure:
        return Figure(benchmark="batch-api", name=f"{rows:,} requests: {name}", value=value, unit=unit, at_most=at_most)

    return [
        figure("uploaded, and the batch made", posted_s, "s"),
        figure("ended", ended_s, "s"),
        figure("results read", read_s, "s"),
        figure("of them", rows / (ended_s + read_s), "/s"),
        figure("peak memory of serve", peak_mb, "MB", at_most=MB_MAX),
    ]
