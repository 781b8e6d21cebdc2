"""What may hold a run up: the causes in their rank, and what is said of one that was found."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec


class Cause(StrEnum):
    """Each cause, the one to be looked at first first: what nothing gets past, then what only makes it slower."""

    LEDGER_NEWER = "ledger-newer"
    LEDGER_ON_NETWORK = "ledger-on-network"
    LEDGER_IN_USE = "ledger-held"
    DISK_FULL = "disk-full"
    SERVER_LOSES_COMMITS = "server-loses-commits"
    ROLE_LACKS_RIGHTS = "role-lacks-rights"
    SERVER_FULL = "server-full"
    DNS = "dns"
    PROXY = "proxy"
    TLS = "tls"
    TIME_OUT = "time-out"
    UNREACHABLE = "unreachable"
    NOT_THE_SERVICE = "not-the-service"
    KEY_REFUSED = "key-refused"
    ENDPOINT_UNKNOWN = "endpoint-unknown"
    RESULTS_EXPIRE = "results-expire"
    PROCESS_SILENT = "process-silent"
    NO_PROCESS = "no-process"
    RUN_BLOCKED = "run-held"
    STOPPED = "stopped"
    PAUSED = "paused"
    CLOCK_WRONG = "clock-wrong"
    WEBHOOK_UNREACHABLE = "webhook-unreachable"
    WEBHOOK_ANSWERED = "webhook-answered-by-another"
    NO_WORKERS = "no-workers"
    WORKERS_THROTTLED = "workers-throttled"
    WORKERS_UNHEALTHY = "workers-unhealthy"
    SCALED_TO_ZERO = "scaled-to-zero"
    SERVICE_FAILS = "service-fails"
    MEMBER_UNWELL = "member-unwell"
    MEMBERS_DIFFER = "members-differ"
    BATCH_REFUSED = "batch-refused"
    BATCH_STUCK = "batch-stuck"
    BATCH_WAITS = "batch-waits"
    TRYING = "trying"
    SNAPSHOT_OLD = "snapshot-old"
    UNSWEPT = "unswept"
    SERVER_UNPROVEN = "server-unproven"
    STANDBY_MAY_LAG = "standby-may-lag"
    POOLER = "pooler"
    COLD_START = "cold-start"
    QUEUE_FULL = "queue-full"
    OUTSTANDING_BOUND = "outstanding-bound"
    QUESTIONS_UNWANTED = "questions-unwanted"
    WORKERS_RAISED = "workers-raised"
    PODS_PAID = "pods-paid"
    STRAY_REFUSALS = "stray-refusals"
    CONCURRENCY = "concurrency"
    RATE_LIMIT = "rate-limit"


RANK: Final[Mapping[Cause, int]] = {cause: rank for rank, cause in enumerate(Cause)}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One cause that was found."""

    cause: Cause
    about: str
    """The run, the endpoint or the file that it holds up."""

    sentence: str
    """What it is, as the progress display and `status` say it too."""

    evidence: tuple[str, ...] = ()
    """By what it was recognised."""

    advice: str
    """What to do."""

    needs_person: bool
    """Whether it stays until somebody does that."""


def finding(cause: Cause, about: str, sentence: str, *evidence: str, advice: str, needs_person: bool = True) -> Finding:
    """The finding of a rule, by the evidence for it."""
    return Finding(
        cause=cause, about=about, sentence=sentence, evidence=evidence, advice=advice, needs_person=needs_person
    )


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """All that was found, the first cause first."""

    findings: tuple[Finding, ...]
    runs: int
    """How many runs are open of those that were looked at."""

    asked: tuple[str, ...] = ()
    """The endpoints that said how they are."""

    not_asked: tuple[str, ...] = ()
    """What could not be looked at, and why."""

    @property
    def needs_person(self) -> bool:
        """Whether anything stays until somebody does something."""
        return any(each.needs_person for each in self.findings)
