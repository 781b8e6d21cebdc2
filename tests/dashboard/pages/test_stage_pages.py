"""The pages of runs that carry out stages of flows, and the report of a flow."""

from datetime import UTC
from pathlib import Path

import pytest

from orchestrator.dashboard.payload_redaction import Payloads
from orchestrator.dashboard.rendering.report import read_report, report_page
from tests.dashboard.nights import looking, nights
from tests.simulation.database import async_creator

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_a_flow_is_one_line_its_stages_lead_back_to_it_and_rows_to_their_kin(tmp_path: Path) -> None:
    async with looking(tmp_path) as site:
        lines = (await site.json("/runs?name=captions@"))["lines"]
        line = next(each for each in lines if each["standing"] == "succeeded")
        assert line["run"] is None
        assert [stage["stage"] for stage in line["stages"]] == ["caption", "embed"]
        caption, embed = (stage["run"] for stage in line["stages"])
        page = await site.get("/runs")
        assert page.text.count(line["name"]) == 1, "it is one line"
        assert f'href="/runs/{embed}"' in page.html

        run = await site.get(f"/runs/{embed}")
        assert f"stage embed of {line['name']}" in run.text
        assert f'href="/flows/{line["flow"]}"' in run.html

        [first, *_] = (await site.json(f"/runs/{embed}/jobs"))["jobs"]
        job = await site.json(f"/runs/{embed}/jobs/{first['job']}")
        assert [(each["stage"], each["run"]) for each in job["made_of"]] == [("caption", caption)]
        assert job["became"] == []
        parent = job["made_of"][0]["job"]
        above = await site.json(f"/runs/{caption}/jobs/{parent}")
        assert [(each["stage"], each["job"]) for each in above["became"]] == [("embed", first["job"])]
        assert "became" in (await site.get(f"/runs/{caption}/jobs/{parent}")).text
        found = await site.get(f"/find?flow={line['name']}")
        assert (found.status, found.headers["location"]) == (303, f"/flows/{line['flow']}")


async def test_the_report_of_a_flow_tells_of_each_stage(tmp_path: Path) -> None:
    path, clock = await nights(tmp_path)
    async with looking(tmp_path) as site:
        lines = (await site.json("/runs?name=captions@"))["lines"]
        name = next(each["name"] for each in lines if each["standing"] == "succeeded")
    found = await read_report(path, name, shows=Payloads(), clock=clock, connect=async_creator(path))
    assert found.flow is not None
    assert [run.flow.stage for run in found.runs if run.flow is not None] == ["caption", "embed"]
    html = report_page(found, path, UTC).html.decode()
    assert html.count("Done: all 2 succeeded.") == 2
    assert "4 of 4 jobs done, 0 failed" in html
