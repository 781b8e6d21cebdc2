"""Which webhooks are due when, and the faults that lose, double or delay them."""

import heapq

import msgspec

from orchestrator.emulator.contract.answers import with_strange_error
from orchestrator.emulator.contract.faults import BYTE_ORDER_MARK, Fault, FaultDice
from orchestrator.emulator.jobs.false_answers import FalseAnswers
from orchestrator.emulator.jobs.jobs import ServiceJob, ServiceStatus
from orchestrator.units import SECOND_US

WEBHOOK_STATUSES = frozenset({ServiceStatus.COMPLETED, ServiceStatus.FAILED, ServiceStatus.TIMED_OUT})
"""The ends that call the webhook. Whether a cancellation does is not known."""


class WebhookCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that is due now."""

    url: str
    body: bytes


class WebhookSchedule:
    """The webhooks that wait for their time."""

    def __init__(self, dice: FaultDice, false_answers: FalseAnswers) -> None:
        self._dice = dice
        self._false_answers = false_answers
        self._due: list[WebhookCall] = []
        self._late: list[tuple[int, int, WebhookCall]] = []
        self._late_count = 0

    def job_ended(self, job: ServiceJob, now: int) -> None:
        """Announce the end of a job, if it asked for that and ended in a way that is announced."""
        if job.webhook is None or job.status not in WEBHOOK_STATUSES or self._dice.strikes(Fault.LOST_WEBHOOK):
            return
        webhooks = [
            WebhookCall(url=job.webhook, body=msgspec.json.encode(record))
            for record in self._false_answers.announcements(job)
        ]
        for webhook in webhooks * (2 if self._dice.strikes(Fault.DUPLICATE_WEBHOOK) else 1):
            if (strange := with_strange_error(webhook.body)) != webhook.body and self._dice.strikes(Fault.STRANGE_TEXT):
                webhook = msgspec.structs.replace(webhook, body=strange)  # noqa: PLW2901
            if self._dice.strikes(Fault.MARKED_ANSWER):
                webhook = msgspec.structs.replace(webhook, body=BYTE_ORDER_MARK + webhook.body)  # noqa: PLW2901
            if self._dice.strikes(Fault.LATE_WEBHOOK):
                at = now + round(self._dice.faults.late_webhook_s * SECOND_US)
                self._late_count += 1
                heapq.heappush(self._late, (at, self._late_count, webhook))
            else:
                self._due.append(webhook)

    def pop_due(self, now: int) -> tuple[WebhookCall, ...]:
        """The calls that are due, each given out once."""
        while self._late and self._late[0][0] <= now:
            self._due.append(heapq.heappop(self._late)[2])
        due, self._due = tuple(self._due), []
        return due

    def next_at(self) -> int | None:
        """When the next call is due (µs): 0 for at once, None without any."""
        if self._due:
            return 0
        return self._late[0][0] if self._late else None
