"""Another program holds the ledger's lock for longer than the program waits: it stops, and goes on later."""

import sqlite3
import time
from contextlib import closing
from typing import Final

from tests.crashes.kills import FAST, LEDGER, PATIENCE_S, verified
from tests.system.processes import Desk, Service

JOBS: Final = 2_000
AT: Final = 100
"""So many submissions were accepted when the lock is taken."""


def locked_run(desk: Desk, service: Service, *, hold_s: float) -> list[str]:
    """Runs jobs, holds the lock for `hold_s`, then lets the run be resumed; returns what was not as it should be."""
    desk.inputs(JOBS)
    place = ("--output", "results.jsonl", "--json", *FAST)
    program = desk.start(
        "run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, *place, within_s=PATIENCE_S
    )
    service.wait("accepted", AT)
    with closing(sqlite3.connect(desk.folder / LEDGER, isolation_level=None, timeout=60)) as other:
        other.execute("BEGIN IMMEDIATE")
        time.sleep(hold_s)
        other.execute("ROLLBACK")
    stopped = program.ended()
    resumed = desk.start("resume", "prompts", "--output", "results.jsonl", "--json", within_s=PATIENCE_S).ended()
    audit = verified(desk.folder, files=True)
    rules = {
        f"it did not stop with exit code 3: {stopped}": stopped.exit_code != 3,
        f"it does not say why: {stopped.stderr}": "another program has locked the ledger" not in stopped.stderr,
        f"it did not go on: {resumed}": resumed.exit_code != 0,
        f"a job has no result: {resumed}": desk.ids() != [f"row-{n}" for n in range(JOBS)],
        "more was paid twice than was uncertain": (
            len(service.accepted()) - JOBS > resumed.summary["uncertain"]["resubmitted"]
        ),
        f"the ledger is damaged: {audit.findings}": not audit.ok,
    }
    return [what for what, is_so in rules.items() if is_so]
