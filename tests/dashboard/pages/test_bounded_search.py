"""A search that would go through too much for one page: it says how far it has looked, and goes on from there."""

import html
import json
import re
from pathlib import Path

import pytest

from tests.dashboard.harness import dashboard
from tests.factories import a_row
from tests.ledger.ledgers import a_run, opened
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

JOBS = 2_300
"""More than the inputs that are read for one page."""

LATE = 2_222


async def test_a_rare_match_is_found_by_going_on_looking(tmp_path: Path) -> None:
    path, clock = tmp_path / "l.db", VirtualClock()
    async with opened(path, clock=clock) as ledger:
        rows = [a_row(n, f"n-{n}", payload=json.dumps({"n": n}).encode()) for n in range(1, JOBS + 1)]
        run = await a_run(ledger, rows, name="long")
    async with dashboard(path, clock=clock) as site:
        jobs = f"/runs/{run.id}/jobs?where=input.n={LATE}"
        first = await site.get(jobs)
        assert "Looked at 2,000 jobs for this page, and there are more." in first.text
        assert "No job is meant by that filter" not in first.text, "nobody knows that yet"
        [on] = re.findall(r'<a class="button" rel="next" href="([^"]*)">Go on looking</a>', first.html)
        found = await site.json(html.unescape(on))
        assert [job["custom_id"] for job in found["jobs"]] == [f"n-{LATE}"]
        assert (found["after"], found["looked_at"]) == (None, None), "that was all of it"
        none = await site.json(html.unescape(on).replace(str(LATE), "0"))
        assert (none["jobs"], none["after"]) == ([], None)
        counted = await site.get(f"{jobs}&count=1")
        assert "1 job, exact" in counted.text
