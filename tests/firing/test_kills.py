"""The short forms of `python -m tests.firing --seeds 0 --kills 100` and of `python -m tests.failover.keepers`."""

from pathlib import Path

import anyio
import pytest

from tests.crashes.firing import killed
from tests.failover import keepers
from tests.failover.database import Database
from tests.postgres.databases import Databases
from tests.system.processes import Desk, Service

pytestmark = [pytest.mark.system, pytest.mark.slow]


def test_a_serve_and_three_ticks_that_are_killed_leave_each_fire_in_one_place(tmp_path: Path) -> None:
    assert killed(tmp_path, kills=2, seed=3) == []


def test_a_killed_keeper_of_a_server_leaves_nothing_undone_and_does_nothing_twice(
    tmp_path: Path, durable_databases: Databases
) -> None:
    service = Service()
    with durable_databases.one() as url:
        wrong = anyio.run(keepers.killed, Desk(tmp_path), service, Database.at(url), 1, 3)
    service.stop()
    assert wrong == []
