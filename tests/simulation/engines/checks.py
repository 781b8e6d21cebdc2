"""What must be true of several engines that share a ledger, whatever has befallen them."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Final

import httpx

from orchestrator.units import SECOND_US
from tests.postgres.succession import Succession
from tests.simulation.books import Books
from tests.simulation.command_checks import WORKED_US
from tests.simulation.engines.facts import EVERY_US, Sent
from tests.simulation.engines.plan import Trouble
from tests.simulation.facts import Facts

SILENCE_US_MAX: Final = 10 * SECOND_US
"""So long nobody may send, whatever becomes of whoever sent."""

GONE: Final = frozenset({Trouble.KILLED, Trouble.FROZEN, Trouble.NO_LEDGER, Trouble.NEITHER, Trouble.ASKED})
"""After these another one takes the place of whoever sent, where they last for long enough."""


def nobody_sends_after_a_successor(facts: Facts, _books: Books) -> Iterator[str]:
    """Who sends at an endpoint are the owners of its shard, in the order in which the ledger had them: after the first
    request of one none of an earlier one leaves.
    """
    if facts.engines is None:
        return
    owners, succession = _Owners(facts), Succession()
    for sent in facts.engines.sent:
        is_own, known = owners.of(sent)
        place = (sent.place, is_own)
        if succession.may_send(sent.process, place, known):
            continue
        if sent.process in known:
            latest = succession.latest(place, known)
            yield f"{sent.process} sent a {sent.operation} to {sent.place} at {sent.at}, after {latest} had"
        else:
            yield f"{sent.process} sent a {sent.operation} to {sent.place} at {sent.at}, and never owned it"


class _Owners:
    """Who owned what, one after the other."""

    def __init__(self, facts: Facts) -> None:
        assert facts.engines is not None
        self._owned = [each for each in facts.engines.owned if each.mark is not None]
        self._sharing = {each.mark for each in facts.engines.processes if each.is_engine}
        with closing(sqlite3.connect(facts.ledger)) as db:
            is_sharded = any(name == "shard_id" for _, name, *_ in db.execute("PRAGMA table_info(endpoints)"))
            shard = "coalesce(shard_id, id)" if is_sharded else "0"
            self._shards = {
                f"{httpx.URL(url).host}/{endpoint}": {shard, number}
                for url, endpoint, shard, number in db.execute(
                    f"SELECT service_url, endpoint, {shard}, id FROM endpoints"
                )
            }

    def of(self, sent: Sent) -> tuple[bool, list[str]]:
        """Whether who sent ever had the shard of that endpoint, and all who had it. Who had the whole ledger alone, which
        none that serve do, may have died before it had taken the shard of a new endpoint: then all who had any.
        """
        shards = self._shards.get(sent.place, set())
        own = [each.mark for each in self._owned if each.shard in shards and each.mark is not None]
        if sent.process in own or sent.process in self._sharing:
            return True, own
        return False, [each.mark for each in self._owned if each.mark is not None]


def somebody_goes_on_soon(facts: Facts, _books: Books) -> Iterator[str]:
    """Where whoever sent cannot any more, somebody else does who is there all the time, as long as there is something to be
    collected.
    """
    if facts.engines is None:
        return
    known = {each.mark: each for each in facts.engines.processes}
    for at, mark, befell in facts.engines.befell:
        until = at + SILENCE_US_MAX
        if (
            befell.trouble not in GONE
            or mark != next((sent.process for sent in reversed(facts.engines.sent) if sent.at <= at), None)
            or known[mark].is_able(at, until)
            or not any(each.is_able(at, until) for each in known.values() if each.is_engine)
            or not any(_is_open(facts, remote_id, at, until) for remote_id in facts.fates)
        ):
            continue
        if not any(at < sent.at <= until for sent in facts.engines.sent):
            yield f"nobody sent anything for {SILENCE_US_MAX / SECOND_US:g} s after {befell.trouble} of{mark}"


def _is_open(facts: Facts, remote_id: str, since: int, until: int) -> bool:
    """Whether there was something to ask for all the time: the program asked before, more often than that, and did again."""
    asked = facts.questions.get(remote_id, ())
    is_often = sum(since - SILENCE_US_MAX < at < since for at in asked) > 1
    return is_often and any(at > until for at in asked)


def each_schedule_fires_once(facts: Facts, _books: Books) -> Iterator[str]:
    """Each time that is due has one flow, and no other time has any, whoever looked after the schedule by then."""
    if facts.engines is None or facts.engines.scheduled_at is None:
        return
    now = facts.true.now()
    first = (facts.engines.scheduled_at // EVERY_US + 1) * EVERY_US
    due = [at for at in range(first, now, EVERY_US) if facts.up_us(at, now) > WORKED_US]
    with closing(sqlite3.connect(facts.ledger)) as db:
        fired = [at for (at,) in db.execute("SELECT fire_at FROM flows ORDER BY fire_at")]
        recorded = [at for (at,) in db.execute("SELECT fire_at FROM fires ORDER BY fire_at")]
    if fired != recorded or not set(due) <= set(fired) or any(at % EVERY_US or at < first for at in fired):
        yield f"of {due} there are the fires {recorded}, and the flows {fired}"


OF_ENGINES: Final = (each_schedule_fires_once, nobody_sends_after_a_successor, somebody_goes_on_soon)
