"""What has become due in the world, for whoever drives it to carry out."""

import msgspec

from orchestrator.emulator.jobs.jobs import ExecutionKey
from orchestrator.emulator.jobs.webhook_schedule import WebhookCall


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """What `step` hands to the world outside."""

    webhooks: tuple[WebhookCall, ...]
    stopped: tuple[ExecutionKey, ...]
    """Executions whose result nobody waits for any more; their workers are to stop."""
    queued: tuple[str, ...]
    """Endpoints where a job came back by itself, or a worker has just become ready: the one may take the other."""
    changed: tuple[str, ...]
    """Jobs that somebody watches, and that have ended, vanished or put out a chunk."""
    started: tuple[tuple[str, str], ...]
    """Workers (endpoint, id) that have just been started."""
    stopping: tuple[tuple[str, str], ...]
    """Workers (endpoint, id) that are to go: idle for too long, above the maximum, or asking for it."""
