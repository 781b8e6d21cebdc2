"""`watch` shows what `run` shows."""

import json

import pytest

from tests.cli.command_line import give
from tests.cli.small_ledger import a_ledger


def test_a_run_is_shown_to_its_end() -> None:
    a_ledger(succeeded=3)
    result = give("watch", "captions")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "captions: 3 of 3 jobs finished (100 %)" in result.stderr


@pytest.mark.parametrize(("failed", "code"), [(0, 0), (1, 1)])
def test_as_json_each_line_is_how_it_stands(failed: int, code: int) -> None:
    a_ledger(succeeded=2, failed=failed)
    result = give("watch", "--json")
    assert (result.exit_code, result.stderr) == (code, "")
    for line in result.stdout.splitlines():
        counts = json.loads(line)["counts"]
        assert (counts["succeeded"], counts["failed"]) == (2, failed)
