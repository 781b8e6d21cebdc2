"""What needs a person, by `orchestrator status`: the same as on the first page of the dashboard."""

import json

from orchestrator.cli.output.needs_texts import needs_line, needs_text
from orchestrator.core.diagnosis.need_facts import NeedKind, Subject
from orchestrator.views.pages.needs import NeedLine
from tests.cli.command_line import give
from tests.cli.small_ledger import a_ledger


def need(name: str = "night", kind: NeedKind = NeedKind.BREAKER, **more: object) -> NeedLine:
    return NeedLine(kind=kind, subject=Subject.RUN, name=name, cause="20 of 20 failed", path="/runs/1", **more)  # type: ignore[arg-type]


def test_they_are_told_in_a_line_below_the_runs() -> None:
    a_ledger(queued=2)
    told = " ".join(give("status").stdout.split())
    assert told.endswith("1 thing needs you: captions (nobody); what, and what helps: orchestrator status --needs")
    a_ledger(name="done", succeeded=1)
    assert "needs you" not in give("status", "done").stdout, "that is of the whole ledger"


def test_nobody_is_told_of_where_all_goes_well() -> None:
    a_ledger(succeeded=2)
    assert "need" not in give("status").stdout
    assert give("status", "--needs").stderr == "nothing needs you\n"
    assert give("status", "--needs", "--json").stdout == "[]\n"


def test_each_has_its_cause_and_what_helps() -> None:
    a_ledger(queued=2)
    [found] = json.loads(give("status", "--needs", "--json").stdout)
    assert (found["kind"], found["name"], found["path"]) == ("nobody", "captions", "/runs/1")
    told = " ".join(give("status", "--needs").stdout.split())
    for text in (found["kind"], found["name"], found["cause"], found["advice"]):
        assert text in told


def test_it_is_of_the_whole_ledger() -> None:
    a_ledger(queued=2)
    for word in ("captions", "--all"):
        refused = give("status", "--needs", word)
        assert (refused.exit_code, refused.stdout) == (2, "")


def test_of_many_the_most_urgent_are_named() -> None:
    line = needs_line([need(f"night-{n}") for n in range(5)])
    assert line.startswith("5 things need you: night-0 (breaker), night-1 (breaker), night-2 (breaker), 2 more; what")


def test_nothing_in_them_is_obeyed() -> None:
    assert "\\x1b[2J" in needs_text([need("\x1b[2J", more=3, expires_at=0)])
