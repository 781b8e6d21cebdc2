"""`orchestrator stop` on the command line."""

import json
from functools import partial

from orchestrator.api.admin.process_stop import ProcessEnd, Stopped
from orchestrator.cli.service.ledger import show_stopped
from tests.cli.command_line import shown


def said(stopped: Stopped) -> tuple[int, str]:
    ended = shown(partial(show_stopped, stopped, as_json=False))
    assert ended.stdout == ""
    return ended.exit_code, ended.stderr


def test_what_came_of_it_is_said() -> None:
    was = "process 7 (run one)"
    assert said(Stopped(ledger="l.db", was=None, ended=True)) == (0, "nobody works on l.db\n")
    assert said(Stopped(ledger="l.db", was=was, ended=True, outcome="it stops")) == (0, f"{was} has ended\n")
    went_on = Stopped(ledger="l.db", was=was, ended=True, holder="process 8")
    assert said(went_on) == (0, f"{was} has ended; by now it is process 8 that works on l.db\n")
    asked = "it was asked to end, and will once it can. To end it at once, kill that process\n"
    assert said(Stopped(ledger="l.db", was=was, ended=False)) == (4, f"{was} has not answered; {asked}")
    slow = Stopped(ledger="l.db", was=was, ended=False, outcome="it stops")
    assert said(slow) == (4, f"{was} has not ended yet; {asked}")


def test_programs_are_told_in_json() -> None:
    stopped = Stopped(ledger="l.db", was="process 7", ended=True, outcome="it stops")
    told = json.loads(shown(partial(show_stopped, stopped, as_json=True)).stdout)
    assert (told["was"], told["ended"], told["outcome"], told["held_by"]) == ("process 7", True, "it stops", None)


def test_of_several_each_is_told_whether_it_has_ended() -> None:
    one, other = ProcessEnd(process="process 7 on a (serve)", ended=True), ProcessEnd(process="process 8", ended=True)
    both = Stopped(ledger="l", was="process 7", ended=True, processes=(one, other))
    assert said(both) == (0, "process 7 on a (serve) has ended\nprocess 8 has ended\n")
    named = Stopped(ledger="l", was="process 7", ended=True, holder="process 8", processes=(one,))
    assert said(named) == (0, "process 7 on a (serve) has ended\nprocess 8 goes on with l\n")
    left = ProcessEnd(process="process 8", ended=False)
    exit_code, text = said(Stopped(ledger="l", was="process 7", ended=False, processes=(one, left)))
    assert (exit_code, text.count("has ended\n")) == (4, 1)
    assert "process 8 has not ended yet; it was asked to end, and will once it can." in text
    gone = ProcessEnd(process="process 9", ended=True, was_gone=True)
    assert said(Stopped(ledger="l", was="process 9", ended=True, processes=(gone,))) == (
        0,
        "process 9 was gone already\n",
    )
