"""A service that gives ids twice, and sends webhooks: each row whose webhook brings its own record has its own output."""

from pathlib import Path

import pytest

from orchestrator.emulator.contract.faults import Faults
from tests.simulation.books import read_books
from tests.simulation.checks import violations
from tests.simulation.plan import Plan
from tests.simulation.play import Play


@pytest.mark.slow
@pytest.mark.parametrize(
    ("faults", "seed"),
    [
        (Faults(repeated_id=0.2), 0),
        (Faults(repeated_id=0.2, other_webhook=0.1), 4),
        (Faults(repeated_id=0.2, other_id_webhook=0.1), 4),
        (Faults(repeated_id=0.2, other_webhook=0.2, late_webhook=0.5, late_webhook_s=15), 0),
        (Faults(repeated_id=0.2, other_webhook=0.2, late_webhook=0.5, late_webhook_s=15), 16),
    ],
    ids=["only ids", "and records of others", "and ids of others", "and late", "and late again"],
)
def test_with_its_own_webhook_each_row_has_its_own_output_though_ids_are_given_twice(
    faults: Faults, seed: int, tmp_path: Path
) -> None:
    plan = Plan(
        scenario="swapped",
        seed=seed,
        jobs=100,
        workers=20,
        faults=faults,
        calm_at_s=300,
        webhooks=True,
        all_succeed=True,
    )
    facts = Play(plan, tmp_path, traced=False).play()
    books = read_books(facts.ledger)
    names = {job.id: job.custom_id for job in books.jobs}
    known = {job for job, rows in books.events.items() if any(row.submission in facts.own_webhooks for row in rows)}
    wrong = {row.job for row in books.outcomes if row.output != b'{"n":%d}' % int(names[row.job].removeprefix("job-"))}
    assert len(known) > 70
    assert wrong & known == set()
    assert violations(facts) == []
