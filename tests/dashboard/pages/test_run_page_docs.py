"""What the pages of a run say stands in their how-to, figure by figure and chart by chart."""

import re
from pathlib import Path

import pytest

from orchestrator.dashboard.rendering.jinja_environment import TEMPLATES
from tests.dashboard.pages.a_night import NIGHT, a_night

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

HOW_TO = (Path(__file__).parents[3] / "docs" / "how-to" / "run-pages.md").read_text(encoding="utf-8")


def rows_of(heading: str) -> list[str]:
    """The first cells of the table with that heading."""
    table = HOW_TO.partition(f"| {heading} |")[2].partition("\n\n")[0]
    return re.findall(r"^\| ([^|]+?) \|", table, re.MULTILINE)


def test_each_figure_is_explained() -> None:
    labels = re.findall(r"<dt>([^<{]+)</dt>", (TEMPLATES / "run_figures.html").read_text(encoding="utf-8"))
    assert rows_of("Figure") == list(dict.fromkeys(labels))


@pytest.mark.slow
async def test_each_chart_is_explained(tmp_path: Path) -> None:
    async with a_night(tmp_path) as site:
        charts = (await site.json(f"/runs/{NIGHT}"))["charts"]
        page = await site.get(f"/runs/{NIGHT}")
    explained = rows_of("Chart")
    assert explained[:-1] == [each["title"] for each in charts["charts"]]
    assert f"<figcaption>{explained[-1]}</figcaption>" in page.html
