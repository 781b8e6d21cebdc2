"""Bounds of workers that are lent, as those see them who look at once."""

from pathlib import Path

import anyio
import pytest

from orchestrator.engine.hosting.lent_bounds import LentBounds
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.console import SilentConsole
from orchestrator.engine.runtime.scope import Scope
from orchestrator.ledger.runs.endpoints import LentEndpoint
from tests.engine.process import process
from tests.engine.scripted import Scripted, numbered

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_who_looks_first_at_once_sees_what_the_other_lends(tmp_path: Path) -> None:
    """A process that takes the place of another one raises for its run while it looks what was left."""
    async with process(tmp_path / "db", Scripted(run=numbered())) as p:
        services = p.engine.endpoints.services
        lent = LentBounds(
            ledger=p.ledger,
            scope=Scope.everything(),
            services=services,
            dependencies=Dependencies(),
            console=SilentConsole(),
        )
        seen: list[dict[int, LentEndpoint]] = []

        async def look() -> None:
            seen.append(await lent.known())

        async with anyio.create_task_group() as group:
            group.start_soon(look)
            group.start_soon(look)
        assert seen[0] is seen[1] is await lent.known()
