"""The planted faults, by what they are about.

They are what one gets wrong when one writes such a program for the first time. Nothing in the program knows of them.
"""

from typing import Final

from tests.planted.faults import (
    accounts,
    acting,
    answers,
    braking,
    command_line,
    direct,
    emulating,
    escalating,
    firing,
    intakes,
    lines,
    monitoring,
    notifying,
    outcomes,
    pacing,
    pages,
    pausing,
    pipelines,
    processes,
    programs,
    refusing,
    resuming,
    rules,
    samples,
    selecting,
    shown,
    tables,
    telling,
    user_code,
    validating,
    waking,
    whose,
)
from tests.planted.faults.fault import Fault

FAULTS: Final[tuple[Fault, ...]] = (
    *rules.FAULTS,
    *pages.FAULTS,
    *samples.FAULTS,
    *processes.FAULTS,
    *answers.FAULTS,
    *outcomes.FAULTS,
    *command_line.FAULTS,
    *emulating.FAULTS,
    *lines.FAULTS,
    *monitoring.FAULTS,
    *notifying.FAULTS,
    *intakes.FAULTS,
    *pacing.FAULTS,
    *pausing.FAULTS,
    *pipelines.FAULTS,
    *firing.FAULTS,
    *resuming.FAULTS,
    *programs.FAULTS,
    *refusing.FAULTS,
    *selecting.FAULTS,
    *braking.FAULTS,
    *validating.FAULTS,
    *escalating.FAULTS,
    *direct.FAULTS,
    *accounts.FAULTS,
    *acting.FAULTS,
    *waking.FAULTS,
    *whose.FAULTS,
    *shown.FAULTS,
    *tables.FAULTS,
    *telling.FAULTS,
    *user_code.FAULTS,
)

__all__ = ["FAULTS", "Fault"]
