"""What is wrong with the server on which a ledger is: each rule by itself."""

from typing import Any

import pytest
from msgspec.structs import replace

from orchestrator.core.diagnosis.causes import Cause, Finding
from orchestrator.core.diagnosis.facts import Facts, LedgerState
from orchestrator.core.diagnosis.rules import findings
from orchestrator.core.diagnosis.server_rules import (
    CONNECTIONS_NEEDED,
    DEAD_ROWS_MIN,
    SNAPSHOT_TRANSACTIONS_MAX,
    SNAPSHOT_US_MAX,
    server_sentence,
)
from orchestrator.core.diagnosis.server_state import OldestSnapshot, ServerState, TableState
from orchestrator.core.diagnosis.service_rules import CLOCK_US_MAX
from orchestrator.units import HOUR_US, MINUTE_US

AT = "postgresql://me@db.example/batches"
WELL = ServerState(
    version="18.6",
    role="me",
    tls="TLSv1.3",
    is_on_network=True,
    is_proven=True,
    is_pooled=False,
    ahead_us=-12_345,
    unsafe_settings=(),
    standbys=0,
    waits_for_standby=False,
    connections_free=90,
    connections_bound="max_connections",
    sees_others=True,
    oldest_snapshot=None,
    is_swept=True,
    tables=(TableState(table="jobs", is_writable=True), TableState(table="runs", is_writable=True)),
)
READER = tuple(replace(each, is_writable=False) for each in WELL.tables)


def of(**changes: Any) -> tuple[Finding, ...]:
    return findings(Facts(ledger=LedgerState(path=AT), server=replace(WELL, **changes)))


def snapshot(lasts_us: int | None, transactions: int = 3) -> OldestSnapshot:
    return OldestSnapshot(holder="connection 7 of report (psql)", transactions=transactions, lasts_us=lasts_us)


def tables(**changes: Any) -> tuple[TableState, ...]:
    return (replace(WELL.tables[0], **changes), WELL.tables[1])


def test_one_that_is_well_is_described_and_nothing_is_found() -> None:
    assert of() == ()
    assert findings(Facts(server=WELL)) == ()
    assert server_sentence(AT, WELL) == (
        f"{AT}: PostgreSQL 18.6, TLSv1.3; 90 connections free; the role me reads and writes; this machine's clock is 12"
        " ms behind"
    )
    local = replace(WELL, tls=None, tables=READER, ahead_us=1_000, connections_free=1)
    assert server_sentence(AT, local) == (
        f"{AT}: PostgreSQL 18.6, no TLS; 1 connection free; the role me reads; this machine's clock is 1 ms ahead"
    )


@pytest.mark.parametrize(
    ("changes", "cause", "needs_person", "seen", "advised"),
    [
        (
            {"unsafe_settings": ("full_page_writes",)},
            Cause.SERVER_LOSES_COMMITS,
            True,
            "full_page_writes = off",
            "reload",
        ),
        ({"standbys": 2}, Cause.STANDBY_MAY_LAG, False, "2 standbys, and no commit waits", "synchronous_standby_names"),
        (
            {"tables": tables(is_writable=False)},
            Cause.ROLE_LACKS_RIGHTS,
            True,
            "not in jobs",
            "GRANT ALL ON jobs TO me",
        ),
        (
            {"connections_free": CONNECTIONS_NEEDED - 1},
            Cause.SERVER_FULL,
            True,
            "9 connections free of max_connections",
            "raise max_connections",
        ),
        (
            {"silent_processes": ["process 7 on one"]},
            Cause.PROCESS_SILENT,
            True,
            "process 7 on one has not beaten",
            "on a machine that lives: serve",
        ),
        (
            {"silent_processes": ["process 7 on one"], "is_succeeded": True},
            Cause.PROCESS_SILENT,
            False,
            "process 7 on one has not beaten",
            "another process takes its place",
        ),
        ({"tls": None}, Cause.SERVER_UNPROVEN, False, "no TLS", "verify-full"),
        ({"is_proven": False}, Cause.SERVER_UNPROVEN, False, "TLSv1.3, and the server need not prove", "sslrootcert"),
        ({"is_pooled": True}, Cause.POOLER, False, "another one", "session mode"),
        ({"ahead_us": CLOCK_US_MAX + 1}, Cause.CLOCK_WRONG, True, "it is 30 s ahead of the server's", "NTP"),
        ({"ahead_us": -HOUR_US}, Cause.CLOCK_WRONG, True, "1 h behind the server's", "NTP"),
        (
            {"oldest_snapshot": snapshot(SNAPSHOT_US_MAX)},
            Cause.SNAPSHOT_OLD,
            False,
            "connection 7 of report (psql) for 10 min; 3 transactions",
            "pg_terminate_backend",
        ),
        ({"oldest_snapshot": snapshot(HOUR_US)}, Cause.SNAPSHOT_OLD, True, "for 1 h;", "pg_terminate_backend"),
        (
            {"oldest_snapshot": snapshot(None, SNAPSHOT_TRANSACTIONS_MAX)},
            Cause.SNAPSHOT_OLD,
            True,
            "connection 7 of report (psql); 1,000,000 transactions",
            "pg_drop_replication_slot",
        ),
        ({"is_swept": False}, Cause.UNSWEPT, True, "autovacuum = off", "set it to on"),
        ({"tables": tables(is_left_out=True)}, Cause.UNSWEPT, True, "autovacuum_enabled = off for jobs", "on"),
        (
            {"tables": tables(dead_rows=DEAD_ROWS_MIN + 1, live_rows=7)},
            Cause.UNSWEPT,
            False,
            "100,001 dead rows, and 7 others",
            "VACUUM jobs, and where it stays large, compact ledger while nobody works",
        ),
    ],
)
def test_each_thing_that_is_wrong_is_told_with_what_to_do(
    changes: dict[str, Any], cause: Cause, needs_person: bool, seen: str, advised: str
) -> None:
    [found] = of(**changes)
    assert (found.cause, found.about, found.needs_person) == (cause, AT, needs_person)
    assert seen in found.evidence[0]
    assert advised in found.advice


@pytest.mark.parametrize(
    "changes",
    [
        {"standbys": 2, "waits_for_standby": True},
        {"tables": READER},
        {"connections_free": CONNECTIONS_NEEDED},
        {"is_on_network": False, "tls": None, "is_proven": False},
        {"ahead_us": CLOCK_US_MAX},
        {"oldest_snapshot": snapshot(SNAPSHOT_US_MAX - MINUTE_US, 10 * SNAPSHOT_TRANSACTIONS_MAX)},
        {"oldest_snapshot": snapshot(None, SNAPSHOT_TRANSACTIONS_MAX - 1)},
        {"tables": tables(dead_rows=DEAD_ROWS_MIN, live_rows=7)},
        {"tables": tables(dead_rows=3 * DEAD_ROWS_MIN, live_rows=3 * DEAD_ROWS_MIN)},
    ],
)
def test_what_is_as_it_should_be_is_not_told(changes: dict[str, Any]) -> None:
    assert of(**changes) == ()
