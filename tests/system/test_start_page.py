"""The tutorial, carried out as it stands."""

import re
from pathlib import Path

import pytest

from tests.system.processes import Desk

PAGE = (Path(__file__).parents[2] / "docs" / "start.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_tutorial_does_what_it_says(desk: Desk) -> None:
    for name, text in re.findall(r"```python file=(\S+)\n(.*?)```", PAGE, re.DOTALL):
        desk.write(name, text)
    ends = [desk.shell(script) for script in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)]

    assert [end.exit_code for end in ends] == [0, 1, 0, 0, 0], [end.stderr for end in ends]
    printed = re.search(r"```\n(prompts: finished.*?)```", PAGE, re.DOTALL)
    assert printed is not None
    assert [line for line in printed[1].splitlines() if line not in ends[1].stderr and line != "..."] == []
    assert "100 lines of results, 0 of errors" in ends[3].stdout
    assert "all 100 jobs succeeded" in ends[4].stderr
