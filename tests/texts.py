"""Texts that Hypothesis draws."""

from hypothesis import strategies as st

CHARACTERS = st.characters(exclude_categories=["Cs"])
"""All that UTF-8 can encode. What `st.text()` draws is the same; to find that out it encodes a million characters, which
takes seconds where nothing is kept of an earlier run."""


def texts(*, min_size: int = 0, max_size: int | None = None) -> st.SearchStrategy[str]:
    """Any text of so many characters."""
    return st.text(CHARACTERS, min_size=min_size, max_size=max_size)
