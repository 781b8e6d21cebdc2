"""Which members of outputs of an older ledger are known to be files."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from orchestrator.ledger.migrations import migrate
from tests.ledger.test_migrations import old_ledger


def test_results_of_an_older_run_that_made_files_are_known_for_theirs(tmp_path: Path) -> None:
    path = old_ledger(tmp_path / "l.db", "0045")
    rules = json.dumps({"save": [{"path": ["a"], "template": "/x"}, {"path": ["b", "*"], "template": "/y"}]})
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO endpoints (id, service_url, endpoint) VALUES (1, 'u', 'e')")
        for run, settings in ((1, rules), (2, "{}")):
            connection.execute(
                "INSERT INTO runs (id, name, endpoint_id, source, settings, created_at, intake_accepted)"
                " VALUES (?1, ?1, 1, '-', ?2, 1, 1)",
                (run, settings),
            )
            connection.execute(
                "INSERT INTO jobs (id, run_id, endpoint_id, custom_id, intake_id, line, state, ended_at)"
                " VALUES (?1, ?1, 1, 'a', 1, 1, 'succeeded', 1)",
                (run,),
            )
            connection.execute("INSERT INTO outcomes (job_id, output) VALUES (?, x'7b7d')", (run,))
        connection.commit()
    migrate(path)
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT job_id, saved FROM outcomes ORDER BY 1").fetchall()
    assert found == [(1, '["output.a","output.b.*"]'), (2, None)]
