"""A run of 5,000 rows by the service's own Batch, killed as batches are made, filled, finalized and read: each row has
its result, and nothing is executed twice.
"""

from typing import Final

import pytest

from tests.crashes.batch_kills import FILE, emulator, figures, killed
from tests.system.processes import Desk, lines_of

pytestmark = [pytest.mark.system, pytest.mark.slow]

ROWS: Final = 5_000
MOMENTS: Final = (1, 2, 3, 5, 8, 9, 13, 16, 17, 18, 19, 20, 21, 24, 30, 60, 110, 170, 230)
"""After so many requests about batches: as the first is made, filled, finalized, asked for and read, and so on."""


def test_five_thousand_rows_in_batches_through_kills_at_every_step(desk: Desk) -> None:
    desk.write("orchestrator.toml", FILE)
    desk.write("rows.jsonl", lines_of({"custom_id": f"row-{n}", "input": {"n": n}} for n in range(ROWS)))
    with emulator(desk) as url:
        program, kills = killed(desk, url, MOMENTS)
        ended = program.ended()
        assert ended.exit_code == 0, ended
        jobs = {name: found["health"]["jobs"] for name, found in figures(url).items()}
    assert kills >= len(MOMENTS) - 2
    found = desk.rows()
    assert [row["custom_id"] for row in found] == [f"row-{n}" for n in range(ROWS)]
    assert [row["output"] for row in found] == [{"n": n} for n in range(ROWS)]
    executed = {name: each["completed"] + each["failed"] + each["inProgress"] for name, each in jobs.items()}
    assert sum(executed.values()) == ROWS, f"{executed}: none is executed twice"
    assert executed["ep1.batch"] > 0.99 * ROWS
    assert desk.call("verify", "night").exit_code == 0
