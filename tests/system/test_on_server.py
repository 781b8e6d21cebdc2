"""A ledger on a server of PostgreSQL, as a user has it: the same commands, the same files."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.postgres.databases import Databases
from tests.system.processes import FAST, Desk, Service, lines_of

pytestmark = pytest.mark.system


@pytest.fixture
def ledger(durable_databases: Databases) -> Iterator[str]:
    """The URL of a database in which there is no ledger yet."""
    with durable_databases.empty() as url:
        yield url


def without_ids(rows: list[Any]) -> list[Any]:
    return [row | {"job_id": ""} for row in rows]


def test_a_run_writes_the_same_files_as_with_a_ledger_in_a_file(desk: Desk, service: Service, ledger: str) -> None:
    rows = [*({"custom_id": f"row-{n}", "n": n} for n in range(60)), {"custom_id": "never", "n": 60, "failures": 9}]
    desk.write("prompts.jsonl", lines_of(rows))
    found = []
    for name, address in (("file", "l.db"), ("server", ledger)):
        ended = desk.call(
            "run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--ledger", address,
            "--output", f"{name}.jsonl", "--max-attempts", "1", "--json", *FAST,
        )  # fmt: skip
        again = desk.call("results", "prompts", "--ledger", address, "--output", f"{name}-again.jsonl")
        assert (ended.exit_code, again.exit_code) == (1, 0), (ended, again)
        files = (f"{name}.jsonl", f"{name}.jsonl.errors.jsonl", f"{name}-again.jsonl")
        found.append((ended.summary["jobs"], [without_ids(desk.rows(file)) for file in files]))
    assert found[0] == found[1]
    assert len(found[0][1][0]) == 60
    assert service.counted("accepted") == 2 * 61
