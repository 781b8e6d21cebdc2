"""A command line that cannot be understood is answered with what may have been meant, and one that lacks something with all of it."""

import pytest

from tests.cli.command_line import call


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("run", "--dry-run", "--execution-time", "5s"), "--execution-time is a flag of orchestrator plan"),
        (("run", "i.jsonl", "--outptu", "x"), "did you mean --output?"),
        (("status", "--wehre", "x"), "No such option: --wehre"),
        (
            ("status", "--endpoint", "x"),
            "--endpoint is a flag of orchestrator init, orchestrator run, orchestrator plan and ",
        ),
        (("--ledger", "x", "status"), "flags stand behind the command, as in: orchestrator COMMAND --ledger ..."),
        (("stauts",), "Did you mean 'status'"),
        (
            ("templates", "save", "--image", "me/x"),
            "Missing argument 'NAME', option '--container-disk'.",
        ),
        (("templates", "save", "x", "--container-disk", "9"), "Missing option '--image'."),
    ],
)
def test_the_nearest_or_where_it_is(words: tuple[str, ...], advice: str) -> None:
    refused = call(words, environment={})
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert advice in refused.stderr
    assert "\nsee: orchestrator" in refused.stderr


@pytest.mark.parametrize(
    "words",
    [("runs", "--ledger", "l.db", "show", "N"), ("jobs", "--ledger=l.db", "list"), ("limits", "--json", "show", "N")],
)
def test_a_verb_behind_its_flags_is_the_verb(words: tuple[str, ...]) -> None:
    refused = call(words, environment={})
    assert (refused.exit_code, "there is no ledger here" in refused.stderr) == (2, True)
