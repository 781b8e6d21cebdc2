"""What `--json` prints: each time in ISO 8601 beside, and settings by their flags."""

import json
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pkgutil import walk_packages
from typing import get_type_hints

import msgspec
import pytest

from orchestrator import api
from orchestrator.cli.output import streams
from orchestrator.views import status
from orchestrator.views.json_values import as_printed, is_time, iso_8601
from orchestrator.views.status import JanitorSummary, LastProcess, StuckSummary
from tests.cli.command_line import shown
from tests.cli.samples import run_status

AT = 1_782_208_327_000_123
ISO = "2026-06-23T09:52:07.000123Z"


def test_a_moment_in_iso_8601_is_to_the_microsecond() -> None:
    assert (iso_8601(AT), iso_8601(0)) == (ISO, "1970-01-01T00:00:00.000000Z")


def test_the_times_of_whatever_is_printed_stand_beside_wherever_they_are() -> None:
    last = LastProcess(process="p", since=AT, until=AT, why=None)
    told = {"process": "p", "since": AT, "since_iso": ISO, "until": AT, "until_iso": ISO, "why": None}
    assert as_printed({"runs": [last], "more": 1}) == {"runs": [told], "more": 1}
    for nothing in (StuckSummary(examples=("a",)), [1, 2], {"at": 3}, msgspec.Raw(b'{"at":1}'), None):
        assert as_printed(nothing) is nothing, "what people's own data hold is theirs"


def test_a_sentence_of_ours_calls_settings_by_their_flags_in_json_too() -> None:
    found = msgspec.structs.replace(run_status(), held_up="a longer <setting ttl> lets them go")
    assert json.loads(shown(partial(streams.put_json, found)).stdout)["held_up"] == "a longer --ttl lets them go"


def test_what_was_there_stays_as_it_was() -> None:
    found = msgspec.structs.replace(run_status(), janitor=JanitorSummary(at=AT), created_at=AT)
    run = json.loads(shown(partial(streams.put_json, found)).stdout)
    assert (run["created_at"], run["created_at_iso"]) == (AT, ISO)
    assert run["janitor"] == {"at": AT, "at_iso": ISO, "failing": []}


def structs() -> Iterator[type[msgspec.Struct]]:
    modules = [status, *(import_module(each.name) for each in walk_packages(api.__path__, "orchestrator.api."))]
    for module in modules:
        for each in vars(module).values():
            if isinstance(each, type) and issubclass(each, msgspec.Struct) and each.__module__ == module.__name__:
                yield each


@pytest.mark.parametrize("kind", sorted(set(structs()), key=str), ids=lambda kind: kind.__name__)
def test_a_number_of_microseconds_is_a_time_by_its_name_and_nothing_else_is(kind: type[msgspec.Struct]) -> None:
    """Durations say so by their unit; whatever else is called like a time has to be one."""
    numbers = [name for name, hint in get_type_hints(kind).items() if hint in (int, int | None)]
    assert [name for name in numbers if is_time(name)] == [name for name in numbers if name in TIMES]


TIMES = {
    *("at", "since", "until", "safe_until", "created_at", "set_at", "ended_at", "first_at", "last_at", "sent_at"),
    *("answered_at", "begun_at", "reported_at", "fire_at", "recorded_at", "started_at", "owed_at", "taken_at"),
    *("given_up_at", "checkpoint_at", "next_at", "looked_until", "paused_at", "paused_until", "until_at"),
}
"""What was read, one by one, and found to be microseconds since 1970."""
