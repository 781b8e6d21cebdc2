"""The engine of a shard goes on while endpoints come to be its."""

from typing import Any

import anyio
import pytest

from orchestrator.api.hosting.shared_ledger import LOOK_S
from orchestrator.api.runs.process_commands import retry
from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger.postgres.connection import LineBounds, Settings
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from orchestrator.settings.command_requests import RetryChoice
from orchestrator.settings.run_settings import RunSettings
from tests.api.hosting.site import ONE, OTHER, Site

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


class SlowSite(Site):
    """The answer to each COMMIT takes a while: what was written is seen before whoever wrote it goes on."""

    async def _connect(self, settings: Settings, bounds: LineBounds) -> Any:
        return SlowLine(await super()._connect(settings, bounds))


class SlowLine:
    """A connection of such a site's."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    async def execute(self, statement: str, *given: Any, **named: Any) -> Any:
        said = await self._driver.execute(statement, *given, **named)
        if statement == "COMMIT":
            await anyio.sleep(0.8 * LOOK_S)
        return said


@pytest.mark.slow
async def test_an_endpoint_that_a_run_comes_to_have_is_served_with_it_at_once(site: Site) -> None:
    site.__class__ = SlowSite
    failing, site.is_failing = await site.run_at(ONE, RunSettings(max_attempts=1)), True
    async with site.serving("a"):
        await site.until(failing, State.FAILED)
        site.is_failing = False
        chosen = RetryChoice(endpoint=OTHER)
        await retry(parse_ledger_url(site.url), failing.name, site.dependencies("people"), chosen=chosen)
        await site.until(failing, State.SUCCEEDED)
