"""Dashboards with the sample pages, for tests of what is around pages."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from orchestrator.dashboard.access.tokens import Person
from orchestrator.settings.monitoring.dashboard_settings import DashboardSettings
from tests.dashboard.harness import OPERATOR, Dashboard, dashboard
from tests.dashboard.samples import SEARCHED, SamplePages
from tests.engine.rows import empty_ledger


@asynccontextmanager
async def sample_site(
    folder: Path,
    samples: SamplePages | None = None,
    *,
    person: Person | None = OPERATOR,
    options: Any = (),
    **settings: Any,
) -> AsyncIterator[Dashboard]:
    """A dashboard served by those settings; `options` are more of `dashboard`."""
    samples = samples or SamplePages()
    ledger = empty_ledger(folder / "ledger.db")
    shown = {"pages": [samples.page], "forms": [samples.form], "templates": SEARCHED, **dict(options)}
    async with dashboard(ledger, DashboardSettings(**settings), person=person, **shown) as site:
        yield site
