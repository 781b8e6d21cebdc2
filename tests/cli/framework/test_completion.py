"""A shell completes the names of runs, and the words that a flag takes."""

import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.cli.framework.flags import among, words_of
from tests.api.inspect.test_naming import with_runs


def completed(line: str) -> list[str]:
    """What bash is offered for this line."""
    words = line.split(" ")
    environment = {"_ORCHESTRATOR_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    code = "import sys; from orchestrator.cli import main; sys.argv[0] = 'orchestrator'; main()"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("orchestrator runs pause --ledger l.db ni", ["night-2", "night"]),
        pytest.param("orchestrator pause --ledger none.db ni", [], marks=pytest.mark.slow),
        pytest.param("orchestrator results --order ", ["input", "completion"], marks=pytest.mark.slow),
        pytest.param("orchestrator runs ren", ["rename"], marks=pytest.mark.slow),
    ],
)
def test_a_shell_is_offered_names_verbs_and_words(tmp_path: Path, line: str, offered: list[str]) -> None:
    with_runs(tmp_path / "l.db", "night", "night-2", "noon")
    assert sorted(completed(line)) == sorted(offered)


def test_the_words_of_a_flag_are_those_that_its_help_offers() -> None:
    assert words_of("N|auto|off") == ("auto", "off")
    assert words_of("even|window") == ("even", "window")
    assert words_of("FILE") == words_of("") == ()
    assert among(()) is None
    assert among(("even", "window"))("w") == ["window"]
