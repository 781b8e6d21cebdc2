"""A short measurement of the emulator, far below what it does, so that a slow machine passes too."""

import pytest

from tests.benchmarks.emulator import measure

pytestmark = pytest.mark.system


@pytest.mark.slow
def test_the_emulator_is_fast_enough_on_one_core_and_its_memory_stays_flat() -> None:
    speed, memory = measure(1_000, rounds=4)
    assert speed > 1_500
    assert memory[-1] - memory[1] < 5
