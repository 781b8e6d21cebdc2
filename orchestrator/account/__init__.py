"""What an account at the service has, beside the jobs of its endpoints: pods, endpoints, templates and secrets.

async with Service("https://api.runpod.ai", os.environ["ORCHESTRATOR_API_KEY"]) as service:
    account = Account(service)
    pod = await account.pods.create(PodCreate(name="trainer", image="img:1", gpu=GpuRequest(id="NVIDIA L4")))

Their rules, and the client that keeps them. All that a user of `Account` needs has its name here.
"""

from orchestrator.account.account import Account
from orchestrator.account.endpoints import EndpointRecord, EndpointSpec, WorkerRecord
from orchestrator.account.graphql import GraphQLError
from orchestrator.account.interfaces import CannotSayError
from orchestrator.account.pod_records import (
    Cloud,
    GlobalMount,
    Mounts,
    NetworkMount,
    PersistentMount,
    Pod,
    PodAction,
    PodStatus,
)
from orchestrator.account.pod_specs import CpuRequest, GpuRequest, PodCreate, PodModify
from orchestrator.account.pods import ActionRefusedError, WaitError
from orchestrator.account.rest import ProblemError
from orchestrator.account.secrets import Secret
from orchestrator.account.templates import EnvironmentVariable, Template
from orchestrator.core.interfaces import Interface

__all__ = [
    "Account",
    "ActionRefusedError",
    "CannotSayError",
    "Cloud",
    "CpuRequest",
    "EndpointRecord",
    "EndpointSpec",
    "EnvironmentVariable",
    "GlobalMount",
    "GpuRequest",
    "GraphQLError",
    "Interface",
    "Mounts",
    "NetworkMount",
    "PersistentMount",
    "Pod",
    "PodAction",
    "PodCreate",
    "PodModify",
    "PodStatus",
    "ProblemError",
    "Secret",
    "Template",
    "WaitError",
    "WorkerRecord",
]
