"""How the batches of a run stand together."""

from orchestrator.core.batches.outlook import BatchesOutlook
from orchestrator.units import MINUTE_US

NOW = 100 * MINUTE_US


def test_what_waits_is_told_with_since_when_and_that_nobody_promises_its_begin() -> None:
    one = BatchesOutlook(waiting=1, waiting_rows=97, waits_since=NOW - 5 * MINUTE_US)
    assert one.sentence(NOW) == "1 batch with 97 rows waits at the service for 5 min; it promises no time"
    two = BatchesOutlook(waiting=2, waiting_rows=247, waits_since=NOW - 5 * MINUTE_US)
    assert two.sentence(NOW).startswith("2 batches with 247 rows wait at the service, the first for 5 min")


def test_what_runs_is_told_with_how_much_of_it_has_ended() -> None:
    both = BatchesOutlook(
        waiting=1, waiting_rows=1, waits_since=NOW, running=1, running_rows=150, ended_rows=40, filled=1
    )
    assert both.sentence(NOW).split("; ")[2:] == [
        "1 batch runs there: 40 of 150 rows have ended",
        "1 batch is being filled",
    ]
    assert BatchesOutlook(running=2, running_rows=2, filled=2).sentence(NOW) == (
        "2 batches run there: 0 of 2 rows have ended; 2 batches are being filled"
    )


def test_an_end_is_told_only_where_nothing_waits_for_another_batch() -> None:
    runs = BatchesOutlook(running=1, ends_at=NOW)
    assert (runs.eta_at(0), runs.eta_at(1)) == (NOW, None)
