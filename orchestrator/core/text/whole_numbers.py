"""Whole numbers as other programs write them."""


def plain_number(text: str, *, digits_max: int = 9) -> int | None:
    """The number that so many digits are, at most; None for any other text: what is longer is not even computed."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= digits_max else None
