import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.emulator.contract.faults import Fault, FaultDice, Faults, Spell
from orchestrator.errors import UsageError
from orchestrator.units import SECOND_US


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


def test_a_spell_raises_rates_from_its_beginning_until_just_before_its_end() -> None:
    faults = Faults(
        not_json=1.0, spells=(Spell(from_s=10, for_s=5, lost_job=1.0), Spell(from_s=12, for_s=5, reset=1.0))
    )
    dice = FaultDice(faults, random.Random(1), since=100 * SECOND_US)
    seen = []
    while (at := dice.next_at()) is not None:
        for now in (at - 1, at):
            dice.pass_to(now)
            struck = {fault for fault in Fault if dice.strikes(fault)}
            seen.append((round(now / SECOND_US - 100, 3), struck - {Fault.NOT_JSON}))
            assert Fault.NOT_JSON in struck
    job, both, reset = {Fault.LOST_JOB}, {Fault.LOST_JOB, Fault.RESET}, {Fault.RESET}
    assert seen == [
        *[(10, set()), (10, job)],
        *[(12, job), (12, both)],
        *[(15, both), (15, reset)],
        *[(17, reset), (17, set())],
    ]


def test_the_choices_of_a_fault_are_its_own() -> None:
    alone, among = (FaultDice(Faults(), random.Random(3)) for _ in range(2))
    for _ in range(20):
        among.choice(Fault.OTHER_RECORD, range(9))
        assert alone.choice(Fault.OTHER_WEBHOOK, range(9)) == among.choice(Fault.OTHER_WEBHOOK, range(9))


def test_every_fault_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "interface-emulator.md").read_text()
    section = page.partition("## Faults")[2].partition("\n## ")[0]
    rows = " ".join(row.partition("|")[2].partition("|")[0] for row in section.splitlines() if row.startswith("| `"))
    assert set(re.findall(r"`(\w+)`", rows)) == set(Fault)
    assert all(f"`{name}`" in section for name in Faults.__struct_fields__)
