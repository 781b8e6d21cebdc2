"""What an account at the service has, beside the jobs of its endpoints: pods, endpoints, templates and secrets.

async with Service("https://api.runpod.ai", os.environ["ORCHESTRATOR_API_KEY"]) as service:
    account = Account(service)
    pod = await account.pods.create(PodCreate(name="trainer", image="img:1", gpu=GpuRequest(id="NVIDIA L4")))

Their rules, and the client that keeps them; `BlockingAccount` is the same without `await`. All that one gives it, gets
from it or has to catch has its name here, and stands on docs/how-to/account.md.
"""

from orchestrator.account.account import Account
from orchestrator.account.endpoints.endpoints import EndpointRecord, EndpointSpec, WorkerRecord
from orchestrator.account.pods.pod_record import (
    Cloud,
    CpuConfig,
    GlobalMount,
    GpuConfig,
    Mounts,
    NetworkMount,
    PersistentMount,
    Pod,
    PodAction,
    PodCluster,
    PodGlobalNetworking,
    PodGpuUtilization,
    PodRuntime,
    PodRuntimePort,
    PodSsh,
    PodSshEndpoint,
    PodStatus,
    Utilization,
)
from orchestrator.account.pods.pods import ActionRefusedError, WaitError
from orchestrator.account.pods.specs import CpuRequest, GpuRequest, PodCreate, PodModify
from orchestrator.account.sync import (
    BlockingAccount,
    BlockingEndpoints,
    BlockingPods,
    BlockingSecrets,
    BlockingTemplates,
)
from orchestrator.account.templates.secrets import Secret
from orchestrator.account.templates.templates import EnvironmentVariable, Template
from orchestrator.account.transport.fallback import CannotSayError
from orchestrator.account.transport.graphql_client import GraphQLError
from orchestrator.account.transport.logs import LogLine
from orchestrator.account.transport.rest_client import ProblemError
from orchestrator.client.jobs.refusals import AnswerError
from orchestrator.core.service.account_interfaces import Interface
from orchestrator.errors import NotSent, Unanswered, UsageError

__all__ = [
    "Account",
    "ActionRefusedError",
    "AnswerError",
    "BlockingAccount",
    "BlockingEndpoints",
    "BlockingPods",
    "BlockingSecrets",
    "BlockingTemplates",
    "CannotSayError",
    "Cloud",
    "CpuConfig",
    "CpuRequest",
    "EndpointRecord",
    "EndpointSpec",
    "EnvironmentVariable",
    "GlobalMount",
    "GpuConfig",
    "GpuRequest",
    "GraphQLError",
    "Interface",
    "LogLine",
    "Mounts",
    "NetworkMount",
    "NotSent",
    "PersistentMount",
    "Pod",
    "PodAction",
    "PodCluster",
    "PodCreate",
    "PodGlobalNetworking",
    "PodGpuUtilization",
    "PodModify",
    "PodRuntime",
    "PodRuntimePort",
    "PodSsh",
    "PodSshEndpoint",
    "PodStatus",
    "ProblemError",
    "Secret",
    "Template",
    "Unanswered",
    "UsageError",
    "Utilization",
    "WaitError",
    "WorkerRecord",
]
