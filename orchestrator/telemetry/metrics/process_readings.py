"""What is said of the processes at work, of the ledger as a file, and of what goes to and fro beside jobs."""

import shutil
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from typing import Final

from orchestrator import __version__
from orchestrator.core.samples.buckets import COMMIT_BOUNDS_S, LAG_BOUNDS_S, NO_VALUES, Histogram
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.heartbeats import Heartbeat
from orchestrator.ledger.schema.job_tables import SCHEMA_VERSION
from orchestrator.settings.addresses.companions import Companion, companion_of
from orchestrator.settings.addresses.ledger_address import LedgerUrl
from orchestrator.telemetry.metrics.endpoint_readings import distribution, seconds
from orchestrator.telemetry.metrics.readings import Readings

_FILES: Final = (("database", ""), ("log", Companion.WRITE_AHEAD_LOG))
_SPOILT: Final = ("hints", "unavailable")


async def read_process(
    ledger: Ledger, beats: Sequence[Heartbeat], present: Collection[Heartbeat], into: Readings
) -> None:
    """Adds what processes have said, of which those in `present` are at work. Raises `StorageError`."""
    totals = await ledger.samples.processes.latest([beat.slot for beat in beats])
    for beat in beats:
        slot, is_present = str(beat.slot), beat in present
        into.add("at_work", slot, value=int(is_present))
        into.add("heartbeat_timestamp_seconds", slot, value=seconds(beat.beaten_at))
        if (sampled := totals.get(beat.slot)) is not None:
            into.add("engine_cpu_seconds_total", slot, value=sampled.cpu_s)
            into.add("engine_resident_memory_bytes", slot, value=sampled.resident_bytes if is_present else None)
        for duty in () if beat.report.janitor is None or not is_present else beat.report.janitor.failing:
            into.latest("janitor_failing", duty, value=1)
    await _add_processes(ledger, len(present), into)
    lag = reduce(Histogram.plus, (each.lag for each in totals.values()), NO_VALUES)
    commits = reduce(Histogram.plus, (each.commits for each in totals.values()), NO_VALUES)
    into.add("engine_loop_lag_seconds", value=distribution(lag, LAG_BOUNDS_S))
    into.add("ledger_commit_seconds", value=distribution(commits, COMMIT_BOUNDS_S))
    at = {slot: each.at for slot, each in totals.items()}
    oldest = min((at[beat.slot] for beat in present if beat.slot in at), default=None)
    into.add("sample_timestamp_seconds", value=seconds(oldest or max(at.values(), default=None)))
    _add_webhooks(sum((Counter(each.webhooks) for each in totals.values()), Counter()), into)


async def _add_processes(ledger: Ledger, at_work: int, into: Readings) -> None:
    """Who has the ledger, or waits for a place. On a file nobody waits, and whoever is `at_work` has all of it."""
    found = None if ledger.server is None else await ledger.server.processes()
    waiting = 0 if found is None else sum(each.stands_by for each in found.processes)
    into.add("ledger_processes", "works", value=at_work if found is None else len(found.processes) - waiting)
    into.add("ledger_processes", "stands_by", value=waiting)
    into.add("ledger_shards_unowned", value=0 if found is None else len(found.free))


def _add_webhooks(counted: Mapping[str, int], into: Readings) -> None:
    """By what became of them; those that were received are told apart into the others."""
    spoilt = {name: counted.get(name, 0) for name in _SPOILT}
    accepted = counted.get("received", 0) - sum(spoilt.values())
    for result, n in {"accepted": accepted, **spoilt, "refused": counted.get("refused", 0)}.items():
        into.add("webhooks_total", result, value=n)


async def read_files(ledger: Ledger, into: Readings) -> None:
    """Adds how large the ledger is, and, of one in a file, how much room its disk has: that of a server it watches
    itself.
    """
    path = ledger.address
    if isinstance(path, LedgerUrl):
        size = await ledger.reports.upkeep.size()
        into.add("ledger_size_bytes", "database", value=size.pages * size.page_bytes)
    else:
        for name, suffix in _FILES:
            file = companion_of(path, suffix)
            into.add("ledger_size_bytes", name, value=file.stat().st_size if file.exists() else 0)
        into.add("disk_free_bytes", value=shutil.disk_usage(path.parent).free)
    into.add("build_info", __version__, SCHEMA_VERSION, value=1)
