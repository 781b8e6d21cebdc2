"""The only HTTP out: requests that leave within the limits, and the truth about what became of them.

async with Service("https://api.runpod.ai", os.environ["ORCHESTRATOR_API_KEY"]) as service:
    job = await service.endpoint("abc123").run({"prompt": "a lighthouse"})
    async for chunk in service.endpoint("abc123").stream(job.id):
        print(chunk.output)

All that a user of `Service` needs has its name here.
"""

from orchestrator.client.http.in_process import Deliverer, InProcess
from orchestrator.client.jobs.allowance import PEOPLE_SHARE, for_a_batch, for_people, within_connections
from orchestrator.client.jobs.jobs import EndpointJobs
from orchestrator.client.jobs.rate_limiter import Permit
from orchestrator.client.jobs.records import Chunk, JobRecord, JsonAnswer, Purged
from orchestrator.client.jobs.refusals import AnswerError, JobRefusedError, RefusedError
from orchestrator.client.jobs.serverless import ServerlessEndpoint
from orchestrator.client.jobs.service import Service
from orchestrator.client.jobs.streams import JobStream
from orchestrator.core.service.health import Health
from orchestrator.core.service.s3_config import S3Config
from orchestrator.core.text.durations import Policy
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
    "within_connections",
]
