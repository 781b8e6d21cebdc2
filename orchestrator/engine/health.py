"""Asks an endpoint how it is, within the limit for that."""

from orchestrator.core.health import Health, health_of
from orchestrator.core.pacing import Operation
from orchestrator.core.ports import JobApi
from orchestrator.errors import NotSent, Unanswered


async def ask_health(api: JobApi) -> Health | None:
    """What `/health` says now; None where no answer comes, or one that tells of no good health."""
    permit = await api.permit(Operation.HEALTH)
    try:
        answer = await api.health(permit)
    except (NotSent, Unanswered):
        return None
    return health_of(answer.status, answer.body)
