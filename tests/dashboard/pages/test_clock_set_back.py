"""A clock that was set back by hours: all that the ledger has lies in the future, and pages say nothing absurd of it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from orchestrator.units import HOUR_US
from tests.dashboard.nights import looking

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time, pytest.mark.slow]

PAGES: Final = (
    *("/", "/runs", "/runs/1", "/runs/1?window=1h", "/runs/1/failures", "/runs/1/jobs", "/runs/1/jobs?order=ended"),
    *("/runs/1/jobs/1", "/pipelines", "/pipelines/1", "/flows/1", "/endpoints", "/endpoints/1", "/engine"),
    *("/messages", "/actions"),
)
NEGATIVE: Final = re.compile(r"(?<![\w.:T-])-\d[\d.,]* ?(ms|s|min|h|d)\b")


def negative(view: Any, path: str = "") -> Iterator[str]:
    """Where there is a stretch of time below zero."""
    if isinstance(view, dict):
        for name, value in view.items():
            is_stretch = name.endswith(("_s", "_ms", "_us")) and isinstance(value, int | float)
            if is_stretch and value < 0:
                yield f"{path}.{name}: {value}"
            yield from negative(value, f"{path}.{name}")
    elif isinstance(view, list):
        for number, value in enumerate(view):
            yield from negative(value, f"{path}.{number}")


async def test_no_page_has_a_negative_time_or_fails(tmp_path: Path) -> None:
    async with looking(tmp_path, later_us=-3 * HOUR_US) as site:
        for path in PAGES:
            page = await site.get(path)
            assert page.status == 200, (path, page.text)
            assert NEGATIVE.findall(page.text) == [], path
            assert [*negative(await site.json(path))] == [], path
        assert (await site.get("/metrics")).status == 200
        assert (await site.get("/healthz")).json == {"status": "ok"}
