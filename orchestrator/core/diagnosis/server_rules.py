"""Rules about the server on which a ledger is: what it would lose or refuse, and what it becomes slow by."""

from collections.abc import Iterator
from typing import Final

from orchestrator.core.diagnosis.causes import Cause, Finding, finding
from orchestrator.core.diagnosis.facts import Facts
from orchestrator.core.diagnosis.server_state import ServerState
from orchestrator.core.diagnosis.service_rules import CLOCK_US_MAX, CLOCK_WRONG
from orchestrator.core.text.durations import rough_duration
from orchestrator.core.text.next_step import NextStep, Suggestion
from orchestrator.core.text.wording import counted
from orchestrator.units import HOUR_US, MILLISECOND_US, MINUTE_US

CONNECTIONS_NEEDED: Final = 10
"""The eight that a process has which works, and two for a command beside it."""

SNAPSHOT_US_MAX: Final = 10 * MINUTE_US
"""A long answer, or a backup of a small ledger, takes as long."""

SNAPSHOT_TRANSACTIONS_MAX: Final = 1_000_000
"""For who holds one for a time that is not known."""

DEAD_ROWS_MIN: Final = 100_000
"""What is less is swept up before anybody notices."""


def server(facts: Facts) -> Iterator[Finding]:
    """Everything about the server."""
    state = facts.server
    if state is None or facts.ledger is None:
        return
    at = facts.ledger.path
    yield from _durability(at, state)
    yield from _rights(at, state)
    yield from _processes(at, state, facts)
    yield from _connections(at, state)
    yield from _way(at, state)
    yield from _clock(at, state)
    yield from _snapshot(at, state)
    yield from _sweeping(at, state, facts)


def server_sentence(at: str, state: ServerState) -> str:
    """What there is to say of one that is well."""
    ms, way = abs(state.ahead_us) // MILLISECOND_US, "ahead" if state.ahead_us > 0 else "behind"
    rights = "reads" if state.is_read_only else "reads and writes"
    return (
        f"{at}: PostgreSQL {state.version}, {state.tls or 'no TLS'}; {counted(state.connections_free, 'connection')}"
        f" free; the role {state.role} {rights}; this machine's clock is {ms:,} ms {way}"
    )


def _durability(at: str, state: ServerState) -> Iterator[Finding]:
    if state.unsafe_settings:
        yield finding(
            Cause.SERVER_LOSES_COMMITS,
            at,
            "what this server has confirmed may be lost with its machine",
            *(f"{name} = off" for name in state.unsafe_settings),
            advice="set it to on in the configuration of the server, and reload that",
        )
    if state.standbys and not state.waits_for_standby:
        yield finding(
            Cause.STANDBY_MAY_LAG,
            at,
            "a standby that takes the place of this server may lack what was committed last",
            f"{counted(state.standbys, 'standby', 'standbys')}, and no commit waits for one",
            advice="name one in synchronous_standby_names, where standbys are promoted by themselves",
            needs_person=False,
        )


def _rights(at: str, state: ServerState) -> Iterator[Finding]:
    lacking = [each.table for each in state.tables if not each.is_writable]
    if lacking and not state.is_read_only:
        yield finding(
            Cause.ROLE_LACKS_RIGHTS,
            at,
            f"the role {state.role} may not write in all tables of this ledger",
            f"not in {', '.join(lacking)}",
            advice=f"as their owner: GRANT ALL ON {', '.join(lacking)} TO {state.role}",
        )


def _processes(at: str, state: ServerState, facts: Facts) -> Iterator[Finding]:
    serve = f"on a machine that lives: {facts.word(Suggestion(NextStep.SERVE))}"
    for each in state.silent_processes:
        yield finding(
            Cause.PROCESS_SILENT,
            at,
            "a process of this ledger was stopped, was cut off, or is gone",
            f"{each} has not beaten for some seconds",
            advice="nothing: another process takes its place" if state.is_succeeded else serve,
            needs_person=not state.is_succeeded,
        )


def _connections(at: str, state: ServerState) -> Iterator[Finding]:
    if state.connections_free < CONNECTIONS_NEEDED:
        yield finding(
            Cause.SERVER_FULL,
            at,
            "this server has hardly a connection left: whoever begins to work is refused",
            f"{counted(state.connections_free, 'connection')} free of {state.connections_bound}; a process needs"
            f" {CONNECTIONS_NEEDED}",
            advice=f"raise {state.connections_bound}, or end connections that nobody needs",
        )


def _way(at: str, state: ServerState) -> Iterator[Finding]:
    if state.is_on_network and not (state.tls and state.is_proven):
        yield finding(
            Cause.SERVER_UNPROVEN,
            at,
            "somebody between this machine and the server could read along, or pretend to be it",
            f"{state.tls}, and the server need not prove its name" if state.tls else "the line has no TLS",
            advice="leave sslmode out of the URL, which then is verify-full, and name the file of its authority"
            " (sslrootcert)",
            needs_person=False,
        )
    if state.is_pooled:
        yield finding(
            Cause.POOLER,
            at,
            "a pooler stands between this machine and the server",
            "the number of our connection there is another one than the one that we were told",
            advice="name the server itself, or see that the pool stays in session mode",
            needs_person=False,
        )


def _clock(at: str, state: ServerState) -> Iterator[Finding]:
    if abs(state.ahead_us) > CLOCK_US_MAX:
        way = "ahead of" if state.ahead_us > 0 else "behind"
        yield finding(
            Cause.CLOCK_WRONG,
            at,
            CLOCK_WRONG,
            f"it is {rough_duration(abs(state.ahead_us))} {way} the server's, by which schedules fire",
            advice="let the system keep its time (NTP), or that of the server, whichever is wrong",
        )


def _snapshot(at: str, state: ServerState) -> Iterator[Finding]:
    oldest = state.oldest_snapshot
    if oldest is None:
        return
    if oldest.lasts_us is None:
        is_old, for_so_long = oldest.transactions >= SNAPSHOT_TRANSACTIONS_MAX, ""
    else:
        is_old, for_so_long = oldest.lasts_us >= SNAPSHOT_US_MAX, f" for {rough_duration(oldest.lasts_us)}"
    if is_old:
        yield finding(
            Cause.SNAPSHOT_OLD,
            at,
            "somebody has an old view of the data: nothing is swept up, tables grow, and claims become slow",
            f"{oldest.holder}{for_so_long}; {oldest.transactions:,} transactions have begun since",
            advice="end it: SELECT pg_terminate_backend(NUMBER) for a connection, SELECT"
            " pg_drop_replication_slot('NAME') for a slot, ROLLBACK PREPARED 'NAME' for a prepared transaction",
            needs_person=oldest.lasts_us is None or oldest.lasts_us >= HOUR_US,
        )


def _sweeping(at: str, state: ServerState, facts: Facts) -> Iterator[Finding]:
    left_out = [f"autovacuum_enabled = off for {each.table}" for each in state.tables if each.is_left_out]
    if left_out or not state.is_swept:
        yield finding(
            Cause.UNSWEPT,
            at,
            "nobody sweeps up what steps leave behind: tables grow, and claims become slow",
            *(left_out if state.is_swept else ["autovacuum = off"]),
            advice="set it to on",
        )
    for each in state.tables:
        if each.dead_rows > max(each.live_rows, DEAD_ROWS_MIN):
            yield finding(
                Cause.UNSWEPT,
                at,
                f"most of what the table {each.table} has is dead",
                f"{each.dead_rows:,} dead rows, and {each.live_rows:,} others",
                advice=f"VACUUM {each.table}, and where it stays large,"
                f" {facts.word(Suggestion(NextStep.COMPACT_LEDGER))} while nobody works",
                needs_person=False,
            )
