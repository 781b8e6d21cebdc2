"""What stands in braces: read, refused, and written for one flow."""

import pytest

from orchestrator.core.pipelines.placeholders import Moment, Placeholder, Word, expanded, placeholders, variables

AT = Moment("captions", 1_806_195_600_000_000, 1_806_111_000_000_000, "Europe/Berlin")
"""2027-03-28 at 03:00, the end of a gap, and the day before at 02:30."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("inbox/{previous:%Y-%m-%d}.jsonl", "inbox/2027-03-27.jsonl"),
        ("{fire:%Y-%m-%dT%H%M%z}", "2027-03-28T0300+0200"),
        ("{flow}.out", "captions@20270328T010000Z.out"),
        ("--rows={file:caption}", "--rows=/data/caption.jsonl"),
        ('{{"all": true}}', '{"all": true}'),
        ("{fire:100%%}", "100%"),
        ("plain", "plain"),
    ],
)
def test_each_is_written_as_the_zone_s_clock_shows_it(text: str, expected: str) -> None:
    assert expanded(text, AT, {"caption": "/data/caption.jsonl"}) == expected


def test_where_there_was_no_fire_before_there_is_no_such_path() -> None:
    with pytest.raises(ValueError, match="no fire before that of captions@"):
        expanded("{previous:%Y}", AT._replace(previous_us=None), {})


def test_commands_find_the_fire_before_in_their_environment_where_there_was_one() -> None:
    assert set(variables(AT)) - set(variables(AT._replace(previous_us=None))) == {"ORCHESTRATOR_PREVIOUS"}


def test_they_are_found_with_what_stands_behind_their_colon() -> None:
    assert placeholders("{{a}}{fire:%H:%M}/{flow}") == (Placeholder(Word.FIRE, "%H:%M"), Placeholder(Word.FLOW, ""))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{prev:%Y}", r"no placeholder {prev:%Y}; did you mean previous\?"),
        ("{day}", "no placeholder {day}; there are fire, previous, flow, file"),
        ("{fire}", r"{fire} is written as {fire:%Y-%m-%d}"),
        ("{flow:x}", r"{flow:x} is written as {flow}"),
        ("{file}", r"{file} is written as {file:STAGE}"),
        ("{fire:%Q}", "%Q is not understood"),
        ("{fire:%s}", "%s is not understood"),
        ("{fire:%}", "% is not understood"),
        ("a}b", "write }} for one that means itself"),
        ("a{b", "write {{ for one that means itself"),
    ],
    ids=str,
)
def test_what_is_none_is_refused_with_what_is_one(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        placeholders(text)


def test_commands_find_the_times_of_their_flow_in_their_environment() -> None:
    first = Moment("p", 1_806_195_600_000_000, None, "Europe/Berlin", 2)
    found = {"ORCHESTRATOR_FIRE": "2027-03-28T01:00:00Z", "ORCHESTRATOR_FLOW": "p@20270328T010000Z~2"}
    assert variables(first) == found
    later = first._replace(previous_us=1_806_109_200_000_000)
    assert variables(later) == {**found, "ORCHESTRATOR_PREVIOUS": "2027-03-27T01:00:00Z"}
