"""What the ledger and the processes at work say of what holds runs up, as facts for `core.diagnosis`. Asks nobody."""

import glob
import resource
import shutil
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import msgspec

from orchestrator.core.diagnosis.facts import LedgerState, MemberTrouble, RunState, Sending, StuckBatch
from orchestrator.core.polling.webhook_health import WebhookHealth
from orchestrator.core.pools.member_health import MemberState
from orchestrator.core.text.next_step import NextStep, Suggestion, Wording
from orchestrator.ledger import Ledger
from orchestrator.ledger.commands.command_types import Action
from orchestrator.ledger.reports.run_summaries import RunSummaries
from orchestrator.ledger.runs.heartbeats import ProcessReport, RunReport
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings import run_request
from orchestrator.settings.addresses.ledger_address import LedgerAddress, LedgerUrl
from orchestrator.settings.command_names import command
from orchestrator.settings.connection_settings import words_for
from orchestrator.settings.words_and_defaults import LEDGER_DEFAULT
from orchestrator.units import SECOND_US
from orchestrator.views.status import CollectedBy

ASKED_OF_PROCESS: Final = frozenset({Action.RETRY, Action.RESEND, Action.CANCEL_JOBS})
"""What nobody but a process at work carries out, and the next one still does."""


async def ledger_state(ledger: Ledger, seen: RunSummaries, held_by: str | None, now: int) -> LedgerState:
    """Who works on the ledger, and for how long that process has said nothing."""
    spoke_at = max((*(beat.beaten_at for beat in seen.heartbeats), await ledger.taken_at() or 0))
    return LedgerState(path=str(ledger.address), holder=held_by, silent_us=max(0, now - spoke_at))


def wording(path: LedgerAddress, services: Mapping[str, str]) -> Wording:
    """Words steps as commands that find the ledger at `path`, and the account's key: `services` has those of runs."""
    at_ledger = () if path == LEDGER_DEFAULT else run_request.LEDGER.words(path)

    def word(suggestion: Suggestion) -> str:
        if suggestion.step is NextStep.READ_WORKER_LOGS:
            return command(suggestion)
        needs_key = suggestion.step in (NextStep.RESUME_RUN, NextStep.CARRY_OUT_FLOWS)
        of_account = words_for(services[suggestion.name]) if needs_key else ()
        return command(suggestion, *of_account, *at_ledger)

    return word


def run_state(run: Run, seen: RunSummaries, present: ProcessReport, safe_s: float | None, now: int) -> RunState:
    """One run; `present` is what the processes at work say together."""
    said = present.runs.get(run.id, RunReport())
    controls = seen.controls_of(run)
    refused_at, refused = seen.learned_of(run).refused or (now, None)
    asked = [command for command in seen.pending.get(run.id, ()) if command.action in ASKED_OF_PROCESS]
    stuck = [each for each in said.batches if each.is_stuck]
    waiting = [each for each in said.batches if each.waits and each not in stuck]
    return RunState(
        name=run.name,
        endpoint=run.endpoint,
        service_url=run.service_url,
        counts=seen.counts.get(run.id, {}),
        is_paused=controls.pause,
        is_cancelled=controls.cancel,
        blocked_by=said.blocked_by,
        is_unserved=said.is_unserved,
        unreachable_us=None if said.unreachable_since is None else max(0, now - said.unreachable_since),
        is_bound=said.is_bound,
        webhooks_fail=said.collecting is not None and said.collecting.by is CollectedBy.POLLING_INSTEAD,
        webhooks_come=said.webhook_share is not None and said.webhook_share >= WebhookHealth.RETURN,
        unwanted_us=None if said.unwanted_until is None else max(0, said.unwanted_until - now),
        safe_us=None if safe_s is None else round(safe_s * SECOND_US),
        is_uncollectable=said.is_uncollectable,
        is_low_priority=bool(run.settings.policy.low_priority),
        sending=_sending(run, present),
        stopped_status=said.refused_status,
        refused=refused,
        refused_status=seen.learned_of(run).refused_status,
        hold=seen.brakes.get(run.id),
        refused_us=max(0, now - refused_at),
        pool=[each.endpoint for each in run.settings.members],
        batches_waiting=len(waiting),
        rows_waiting=sum(each.rows for each in waiting),
        batches_wait_us=max((now - (each.finalized_at or now) for each in waiting), default=0),
        stuck_batches=[
            StuckBatch(
                batch=each.batch,
                rows=each.rows,
                ended=each.completed + each.failed,
                quiet_us=now - each.quiet_since,
                is_overtaken=each.is_overtaken,
            )
            for each in stuck
        ],
        no_batch=None if said.no_batch is None else said.no_batch.reason,
        no_batch_us=0 if said.no_batch is None else now - said.no_batch.since,
        timeout_ms=run.settings.policy.execution_timeout_ms,
        members=[
            MemberTrouble(endpoint=each.endpoint, why=each.why, is_tried=each.state is MemberState.TRIED)
            for each in said.members
            if each.state is not None
        ],
        asked=tuple(dict.fromkeys(command.action for command in asked)),
        asked_us=max(0, now - asked[0].asked_at) if asked else 0,
    )


def _sending(run: Run, present: ProcessReport) -> Sending | None:
    meters = [meter for meter in present.meters if meter.endpoint_id == run.endpoint_id]
    meter = next((meter for meter in meters if meter.operation is run.via.operation), None)
    if meter is None:
        return None
    most_strays = max(meters, key=lambda meter: meter.stray)
    sending = msgspec.convert(meter, Sending, from_attributes=True)
    return msgspec.structs.replace(sending, stray=most_strays.stray, stray_operation=most_strays.operation)


def free_bytes(ledger: LedgerAddress) -> int | None:
    """What is free on the disk of the file at `ledger`, or what it may still grow by the limit on the size of files
    (`ulimit -f`), if that is less; None where the system does not tell, and of one on a server.
    """
    if isinstance(ledger, LedgerUrl):
        return None
    try:
        free = shutil.disk_usage(ledger.resolve().parent).free
    except OSError:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit == resource.RLIM_INFINITY:
        return free
    largest = 0
    for path in ledger.resolve().parent.glob(glob.escape(ledger.name) + "*"):  # its log beside it may be the larger one
        with suppress(FileNotFoundError):
            largest = max(largest, path.stat().st_size)
    return min(free, max(0, limit - largest))
