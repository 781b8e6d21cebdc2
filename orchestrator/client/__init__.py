"""The only HTTP out: requests that leave within the limits, and the truth about what became of them.

async with Service("https://api.runpod.ai", os.environ["ORCHESTRATOR_API_KEY"]) as service:
    job = await service.endpoint("abc123").run({"prompt": "a lighthouse"})
    async for chunk in service.endpoint("abc123").stream(job.id):
        print(chunk.output)

All that a user of `Service` needs has its name here.
"""

from orchestrator.client import httpx_alone  # noqa: F401  before anything imports httpx

# isort: split
from orchestrator.client.allowance import PEOPLE_SHARE, for_a_batch, for_people
from orchestrator.client.embedding import Deliverer, InProcess
from orchestrator.client.jobs import EndpointJobs
from orchestrator.client.rate_limiter import Permit
from orchestrator.client.records import Chunk, Health, JobRecord, JsonAnswer, Purged
from orchestrator.client.refusals import AnswerError, JobRefusedError, RefusedError
from orchestrator.client.serverless import ServerlessEndpoint
from orchestrator.client.service import Service
from orchestrator.client.streams import JobStream
from orchestrator.core.policy import Policy
from orchestrator.core.s3_config import S3Config
from orchestrator.errors import NotSent, Unanswered, UsageError

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
    "for_a_batch",
    "for_people",
]
