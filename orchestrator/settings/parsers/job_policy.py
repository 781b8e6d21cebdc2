"""What can be set of the policy of a job: its TTL, how long it may be executed, its priority at the service."""

from functools import partial
from typing import Any, Final

from orchestrator.core.text.durations import Policy
from orchestrator.settings.parsers import job_parsers
from orchestrator.settings.setting import Panel, Setting
from orchestrator.settings.value_types import SWITCH, Kind, ValueType

_of_policy: Final = partial(Setting, of=Policy, panel=Panel.JOBS)

TTL: Final = _of_policy(
    "ttl",
    job_parsers.policy_duration("ttl_ms"),
    "A job's whole life at the service, queue and execution included; 10s to 7d.",
    default="the service's, 24h; of resumable jobs the execution timeout and 24h, 7d at most",
    field="ttl_ms",
)
EXECUTION_TIMEOUT: Final = _of_policy(
    "execution-timeout",
    job_parsers.policy_duration("execution_timeout_ms"),
    "The longest that a worker may run a job; 5s to 7d.",
    default="the service's, 10m",
    brief="The longest that a worker may run a job; 10m",
    field="execution_timeout_ms",
)
LOW_PRIORITY: Final = _of_policy(
    "low-priority",
    ValueType(Kind.SWITCH, "", lambda texts: SWITCH.read(texts) or None),
    "Jobs that do not make the endpoint start workers.",
)

POLICY: Final[tuple[Setting[Any], ...]] = (TTL, EXECUTION_TIMEOUT, LOW_PRIORITY)
