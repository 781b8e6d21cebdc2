"""What an answer of `/health` says, for all who look at it."""

from collections.abc import Mapping

import msgspec


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint in good health. None: the answer does not say."""

    jobs_in_progress: int | None
    jobs_in_queue: int | None = None
    workers_idle: int | None
    workers_running: int | None
    workers_initializing: int | None = None
    workers_throttled: int | None = None
    workers_unhealthy: int | None = None


class _Answer(msgspec.Struct, frozen=True):
    jobs: Mapping[str, object] | None = None
    workers: Mapping[str, object] | None = None
    error: object = None


_decode = msgspec.json.Decoder(_Answer).decode


def health_of(status: int, body: bytes) -> Health | None:
    """The health that an answer tells of; None for a refusal, for what is no JSON object, and for an error in the place
    of health, which comes with status 200 too.
    """
    if not 200 <= status < 300:  # noqa: PLR2004
        return None
    try:
        answer = _decode(body)
    except (ValueError, RecursionError):
        return None
    if answer.error is not None and answer.jobs is None and answer.workers is None:
        return None
    return Health(
        jobs_in_progress=_number(answer.jobs, "inProgress"),
        jobs_in_queue=_number(answer.jobs, "inQueue"),
        workers_idle=_number(answer.workers, "idle"),
        workers_running=_number(answer.workers, "running"),
        workers_initializing=_number(answer.workers, "initializing"),
        workers_throttled=_number(answer.workers, "throttled"),
        workers_unhealthy=_number(answer.workers, "unhealthy"),
    )


def is_of_service(status: int, body: bytes) -> bool:
    """Whether an answer is the service's own, a refusal perhaps: not a server error, which is an answer of the way
    there, and not the page of somebody who stands in for it.
    """
    return status < 500 and (not 200 <= status < 300 or health_of(status, body) is not None)  # noqa: PLR2004


def _number(group: Mapping[str, object] | None, name: str) -> int | None:
    value = None if group is None else group.get(name)
    return max(0, value) if isinstance(value, int) and not isinstance(value, bool) else None
