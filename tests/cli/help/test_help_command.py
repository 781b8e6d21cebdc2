"""`orchestrator help`: commands and topics, and what is no such thing."""

import pytest

from orchestrator.cli.help.exit_codes import EXIT_CODES
from orchestrator.cli.help.topics import FILTER_FIELDS, TOPICS
from orchestrator.core.filters.filter_parser import FIELDS
from tests.cli.command_line import call


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_is_a_short_page(topic: str) -> None:
    shown = call(["help", topic], environment={"COLUMNS": "80"})
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert 2 < len(shown.stdout.splitlines()) <= 40
    assert "`" not in shown.stdout.replace("`orchestrator init`", "").replace("object `input`", "")


def test_the_tables_of_topics_are_complete() -> None:
    assert [name.removesuffix("NAME") for name, _, _ in FILTER_FIELDS] == [*FIELDS]
    assert len({each.code for each in EXIT_CODES}) == len(EXIT_CODES) == 9


def test_nothing_and_a_group_show_what_there_is() -> None:
    assert call(["help"], environment={}).stdout == call(["--help"], environment={}).stdout
    assert "Usage: orchestrator limits COMMAND" in call(["help", "limits"], environment={}).stdout
    assert "orchestrator endpoints --help" in call(["help", "endpoints"], environment={}).stdout


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("filtres",), 'there is no command and no topic "filtres"; did you mean filters?'),
        (("pods", "crate"), 'there is no command and no topic "crate"; did you mean create?'),
        (("xyz",), "topics are input, endpoints"),
        (("run", "output"), 'no topic "output"'),
    ],
)
def test_what_there_is_not_is_answered_with_the_nearest(words: tuple[str, ...], advice: str) -> None:
    refused = call(["help", *words], environment={})
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert advice in refused.stderr
