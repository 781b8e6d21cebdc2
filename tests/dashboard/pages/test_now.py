"""The first page: what needs a person, how pipelines stand, and what is not finished."""
from pathlib import Path

import pytest

from tests.dashboard.nights import looking

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_try(tmp_path: Path) -> None:
    async with looking(tmp_path) as site:
        page = await site.get("/")
        print(page.text)
        import json
        print(json.dumps(await site.json("/"), indent=1)[:9000])
    assert 0
