"""Files of other formats in a program's hands: read into a run, and written of it."""

from pathlib import Path

import pytest

from orchestrator.errors import UsageError
from tests.api.desk import desk
from tests.simulation.world import ENDPOINT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_a_table_is_mapped_to_inputs_and_its_results_are_exported_as_one(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("key;n\nx;1\ny;2\n")
    async with desk(tmp_path) as d, d.orchestrator() as orc:
        run = await orc.submit(
            tmp_path / "a.txt",
            endpoint=ENDPOINT,
            format="csv",
            id_field="key",
            types={"n": "int"},
            map={"n": "{{ row.n * 10 }}"},
        )
        await run.wait()
        found = await run.export(tmp_path / "o.txt", format="csv", flatten=["output.n", "input.n"], include="line")
        assert (found.run, found.results, found.failures) == ("a", 2, 0)
        lines = (tmp_path / "o.txt").read_text().splitlines()
        assert lines[0].split(",")[:5] == ["custom_id", "job_id", "status", "output.n", "input.n"]
        assert [line.split(",")[0] + line.split(",")[4] for line in lines[1:]] == ["x10", "y20"]
        split = await run.export(tmp_path / "o.jsonl.gz", split=1, order="completion", where="id=x")
        assert (split.output, split.results) == (str(tmp_path / "o-*.jsonl.gz"), 1)
        with pytest.raises(UsageError, match=r'^format=: "xml" is none of'):
            await run.export(tmp_path / "o.csv", format="xml")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=r"^flatten=: "):
            await run.export(tmp_path / "o.csv", flatten="caption")
        with pytest.raises(UsageError, match=r"^map= says how a file is read, and these inputs are none"):
            await orc.submit([{"n": 1}], map={"n": "1"})
