"""Memory does not grow with an object: the short form of `python -m tests.stores.flat`."""

import pytest

from tests.stores.flat import GROWTH_MAX, KINDS, LINE, measured


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_an_object_of_a_fifth_of_a_gigabyte_is_a_stream(kind: str) -> None:
    size = 200_000_000 // len(LINE) * len(LINE)
    growth, number = measured(kind, size)
    assert number >= size * 0.97
    assert growth < GROWTH_MAX
