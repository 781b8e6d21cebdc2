"""The only HTTP out: requests that leave within the limits, and the truth about what became of them.

async with Service("https://api.runpod.ai", os.environ["ORCHESTRATOR_API_KEY"]) as service:
    job = await service.endpoint("abc123").run({"prompt": "a lighthouse"})
    async for chunk in service.endpoint("abc123").stream(job.id):
        print(chunk.output)

All that a user of `Service` needs has its name here. It is loaded when first used: who shows pages, or only wants to
know how many files may be open, does without aiohttp.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from orchestrator.core.service.health import Health
from orchestrator.core.service.s3_config import S3Config
from orchestrator.core.text.durations import Policy
from orchestrator.errors import NotSent, Unanswered, UsageError

if TYPE_CHECKING:
    from orchestrator.client.http.in_process import Deliverer, InProcess
    from orchestrator.client.jobs.allowance import (
        PEOPLE_SHARE,
        follow_predecessor,
        for_a_batch,
        for_people,
        left_to_successor,
        within_connections,
    )
    from orchestrator.client.jobs.jobs import EndpointJobs
    from orchestrator.client.jobs.rate_limiter import Permit
    from orchestrator.client.jobs.refusals import AnswerError, JobRefusedError, RefusedError
    from orchestrator.client.jobs.serverless import ServerlessEndpoint
    from orchestrator.client.jobs.service import Service
    from orchestrator.client.jobs.service_answers import Chunk, JobRecord, JsonAnswer, Purged
    from orchestrator.client.jobs.streams import JobStream

__all__ = [
    "PEOPLE_SHARE",
    "AnswerError",
    "Chunk",
    "Deliverer",
    "EndpointJobs",
    "Health",
    "InProcess",
    "JobRecord",
    "JobRefusedError",
    "JobStream",
    "JsonAnswer",
    "NotSent",
    "Permit",
    "Policy",
    "Purged",
    "RefusedError",
    "S3Config",
    "ServerlessEndpoint",
    "Service",
    "Unanswered",
    "UsageError",
    "follow_predecessor",
    "for_a_batch",
    "for_people",
    "left_to_successor",
    "within_connections",
]

_HOME = {
    "AnswerError": "jobs.refusals",
    "Chunk": "jobs.service_answers",
    "Deliverer": "http.in_process",
    "EndpointJobs": "jobs.jobs",
    "InProcess": "http.in_process",
    "JobRecord": "jobs.service_answers",
    "JobRefusedError": "jobs.refusals",
    "JobStream": "jobs.streams",
    "JsonAnswer": "jobs.service_answers",
    "PEOPLE_SHARE": "jobs.allowance",
    "Permit": "jobs.rate_limiter",
    "Purged": "jobs.service_answers",
    "RefusedError": "jobs.refusals",
    "ServerlessEndpoint": "jobs.serverless",
    "Service": "jobs.service",
    "follow_predecessor": "jobs.allowance",
    "for_a_batch": "jobs.allowance",
    "for_people": "jobs.allowance",
    "left_to_successor": "jobs.allowance",
    "within_connections": "jobs.allowance",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
