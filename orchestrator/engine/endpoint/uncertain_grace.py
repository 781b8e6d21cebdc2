"""When a submission whose answer never came is settled."""

from orchestrator.core.jobs.deadlines import TTL_GRACE_US, uncertain_grace_us
from orchestrator.core.jobs.job import Job
from orchestrator.core.service.openai import Via
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.settings.values import OnUncertain


def settle_at(endpoint: Endpoint, job: Job, now: int) -> int:
    """When the uncertain submission of `job` at `endpoint` is to be settled, if no webhook adopts it before."""
    if endpoint.is_local:
        return now
    settings = endpoint.settings_of[job.run]
    if settings.on_uncertain is OnUncertain.HOLD and job.ttl_at is not None:
        return job.ttl_at + TTL_GRACE_US  # the service has deleted it by then
    grace_us = uncertain_grace_us(
        job,
        webhooks=endpoint.webhooks and settings.via is Via.QUEUE,
        p95_us=endpoint.estimates.durations.whole.p95_us,
        wanted_us=settings.uncertain_after_us,
    )
    return now + grace_us
