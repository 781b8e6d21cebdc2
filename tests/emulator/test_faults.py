import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.emulator.faults import Fault, FaultDice, Faults
from orchestrator.errors import UsageError


def test_every_fault_has_a_rate_of_its_name_which_is_zero_by_default() -> None:
    assert {fault: Faults().rate(fault) for fault in Fault} == dict.fromkeys(Fault, 0.0)


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_a_rate_outside_0_to_1_is_refused(rate: float) -> None:
    with pytest.raises(UsageError, match="lost_answer"):
        Faults(lost_answer=rate)


def test_a_fault_at_rate_zero_never_strikes_and_at_one_always() -> None:
    dice = FaultDice(Faults(lost_job=1.0), random.Random(1))
    assert all(dice.strikes(Fault.LOST_JOB) for _ in range(100))
    assert not any(dice.strikes(Fault.LOST_ANSWER) for _ in range(100))
    assert dice.counts()[Fault.LOST_JOB] == 100
    assert dice.counts()[Fault.LOST_ANSWER] == 0


@given(st.integers())
def test_the_same_seed_strikes_at_the_same_times_whatever_other_faults_do(seed: int) -> None:
    alone = FaultDice(Faults(lost_job=0.5), random.Random(seed))
    among = FaultDice(Faults(lost_job=0.5, throttled=0.5), random.Random(seed))
    for _ in range(50):
        among.strikes(Fault.THROTTLED)
        assert alone.strikes(Fault.LOST_JOB) is among.strikes(Fault.LOST_JOB)


def test_faults_can_be_switched_while_running() -> None:
    dice = FaultDice(Faults(), random.Random(1))
    dice.faults = Faults(not_json=1.0)
    assert dice.strikes(Fault.NOT_JSON)


def test_every_fault_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "interface-emulator.md").read_text()
    section = page.partition("## Faults")[2].partition("\n## ")[0]
    rows = " ".join(row.partition("|")[2].partition("|")[0] for row in section.splitlines() if row.startswith("| `"))
    assert set(re.findall(r"`(\w+)`", rows)) == set(Fault)
    assert all(f"`{name}`" in section for name in Faults.__struct_fields__)
