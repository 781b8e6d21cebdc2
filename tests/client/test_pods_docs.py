"""docs/interface-pods.md names tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "interface-pods.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"\*(\w+)\*\s+(?:is )?`([\w/]+\.py)`", PAGE))


def test_every_shorthand_is_a_file() -> None:
    assert len(FILES) == 8
    assert all((ROOT / "tests" / path).is_file() for path in FILES.values())


@pytest.mark.parametrize("line", [line for line in PAGE.splitlines() if "`test_" in line])
def test_every_test_that_the_page_names_is_where_it_says(line: str) -> None:
    for part in re.split(r";|\|", line):
        names = re.findall(r"`(test_\w+)`", part)
        shorthands = [word for word in re.findall(r"\w+", part.split("`test_")[0]) if word in FILES]
        assert bool(names) <= bool(shorthands), part
        for shorthand in shorthands if names else []:
            source = (ROOT / "tests" / FILES[shorthand]).read_text(encoding="utf-8")
            assert [name for name in names if f"def {name}(" not in source] == []
