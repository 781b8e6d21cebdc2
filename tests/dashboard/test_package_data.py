"""What pages are made of comes along with the program."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from orchestrator.dashboard.rendering.jinja_environment import STATIC, TEMPLATES

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.system
def test_the_wheel_has_every_template_and_every_file_of_ours(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(ROOT)]
    made = subprocess.run(words, capture_output=True, check=False)
    if b"No matching distribution" in made.stderr or b"Could not find a version" in made.stderr:
        pytest.skip("what builds the wheel cannot be fetched here")
    assert made.returncode == 0, made.stderr.decode()
    [wheel] = tmp_path.glob("*.whl")
    there = set(zipfile.ZipFile(wheel).namelist())
    needed = {str(path.relative_to(ROOT)) for folder in (TEMPLATES, STATIC) for path in folder.iterdir()}
    assert "orchestrator/dashboard/templates/base.html" in needed
    assert needed <= there


def test_the_script_is_as_short_as_it_was_meant_to_be() -> None:
    assert len((STATIC / "refresh.js").read_text(encoding="utf-8").splitlines()) <= 250
