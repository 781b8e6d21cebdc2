"""`--workers auto:MIN-MAX`: what it is written as, and with what it agrees."""

import pytest

from orchestrator.api.runs.settings_check import check_not_planned
from orchestrator.core.gates.scaling_override import WorkerRange
from orchestrator.core.lanes.via import Via
from orchestrator.core.pools.member import MemberSettings
from orchestrator.errors import UsageError
from orchestrator.settings import run_settings
from orchestrator.settings.run_checks import check_together
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import HOUR_US

SPAN = WorkerRange(2, 30)


def read(text: str) -> int | WorkerRange:
    return run_settings.WORKERS.value_type.read((text,))


@pytest.mark.parametrize(("text", "value"), [("auto:2-30", SPAN), ("auto:5-5", WorkerRange(5, 5)), ("12", 12)])
def test_what_is_written_is_read_and_written_again(text: str, value: int | WorkerRange) -> None:
    assert read(text) == value
    assert run_settings.WORKERS.value_type.write(value) == (text,)


@pytest.mark.parametrize("text", ["auto", "auto:30-2", "auto:0-5", "auto:2-99999", "auto:-2-5", "2-30", "0", "", "x"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"workers"):
        read(text)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (RunSettings(workers=SPAN), "give --finish-by or --budget-per-hour too"),
        (
            RunSettings(workers=SPAN, finish_by=HOUR_US, workers_max=9),
            "--workers auto:2-30 and --workers-max 9 say two things",
        ),
        (RunSettings(workers=SPAN, finish_by=HOUR_US, workers_min=3), "--workers-min 3 is more than the 2"),
        (
            RunSettings(workers=SPAN, finish_by=HOUR_US, members=(MemberSettings("a"), MemberSettings("b"))),
            "--workers is for a run at one endpoint",
        ),
        (RunSettings(workers=SPAN, finish_by=HOUR_US, via=Via.BATCH), "leaves it to the service who executes a batch"),
        (RunSettings(workers=SPAN, budget_per_hour=1.0), "give --price-per-second too"),
        (RunSettings(workers=SPAN, budget_per_hour=1.0, price_per_second=0.001), "2 workers cost 7.20 an hour"),
        (RunSettings(budget_per_hour=1.0, price_per_second=0.001), "give --workers auto:MIN-MAX too"),
    ],
)
def test_what_does_not_agree_is_refused(settings: RunSettings, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        check_together(settings, str)


def test_what_agrees_is_taken() -> None:
    check_together(RunSettings(workers=SPAN, finish_by=HOUR_US, workers_min=2, workers_max=30), str)
    check_together(RunSettings(workers=SPAN, budget_per_hour=7.2, price_per_second=0.001), str)
    check_together(RunSettings(workers=12, members=(MemberSettings("a"), MemberSettings("b"))), str)


def test_a_mere_number_is_for_plans() -> None:
    check_not_planned(RunSettings(workers=SPAN))
    with pytest.raises(UsageError, match="--workers 12 is what a plan goes by; for a run, write"):
        check_not_planned(RunSettings(workers=12))
