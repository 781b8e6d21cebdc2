"""Which texts are whole numbers."""

import pytest

from orchestrator.core.text.whole_numbers import plain_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("0042", 42),
        ("999999999", 999_999_999),
        ("1000000000", None),
        ("", None),
        ("-1", None),
        ("1.5", None),
        (" 1", None),
        ("٣", None),
        ("²", None),
    ],
)
def test_a_whole_number_is_so_many_plain_digits(text: str, number: int | None) -> None:
    assert plain_number(text) == number


def test_how_many_digits_may_be_said() -> None:
    assert plain_number("9" * 18, digits_max=18) == 10**18 - 1
    assert plain_number("9" * 19, digits_max=18) is None
