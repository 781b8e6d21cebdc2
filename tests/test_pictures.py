"""The pictures of the README: they can be drawn, are there, and are small."""

import html
import re
from pathlib import Path

import pytest

from tests.pictures import FAILURES, FOLDER, UNDER_WAY, draw

README = (FOLDER.parents[1] / "README.md").read_text(encoding="utf-8")


def text_of(picture: Path) -> str:
    """What is written in it, as it is read."""
    parts = re.findall(r"<text[^>]*>(.*?)</text>", picture.read_text(encoding="utf-8"))
    return html.unescape(" ".join(parts)).replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.slow
def test_the_pictures_are_drawn_from_real_runs(tmp_path: Path) -> None:
    draw(tmp_path, jobs=40, workers=10)

    under_way, failures = text_of(tmp_path / UNDER_WAY), text_of(tmp_path / FAILURES)
    assert "prompts: 40 rows checked" in under_way
    assert re.search(r"\d\d/40 +\d\d %", under_way)
    assert "prompts: finished; 37 of 40 jobs succeeded" in failures
    assert "3 failed, in 3 kinds:" in failures
    assert "$ orchestrator failures" in failures
    assert "MemoryError: CUDA out of memory: tried to allocate 9 MiB" in failures
    assert "to try: night-9" in failures


@pytest.mark.parametrize("name", [UNDER_WAY, FAILURES])
def test_the_readme_shows_pictures_that_are_small_and_whole_by_themselves(name: str) -> None:
    picture = FOLDER / name
    assert f"](docs/pictures/{name})" in README
    assert picture.stat().st_size < 60_000
    assert not re.search(r"url\((?!#)|href", picture.read_text(encoding="utf-8")), "nothing is fetched"
