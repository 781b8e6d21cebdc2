"""What can be set of each job, which the core knows as its policy."""

from functools import partial
from typing import Any, Final

from orchestrator.core.text.durations import Policy
from orchestrator.settings import parsers
from orchestrator.settings.setting import SWITCH, Form, Kind, Panel, Setting

_job: Final = partial(Setting, of=Policy, panel=Panel.JOBS)

TTL: Final = _job(
    "ttl",
    parsers.policy_milliseconds("ttl_ms"),
    "A job's whole life at the service, queue and execution included; 10s to 7d.",
    default="the service's, 24h; of resumable jobs the execution timeout and 24h, 7d at most",
    field="ttl_ms",
)
EXECUTION_TIMEOUT: Final = _job(
    "execution-timeout",
    parsers.policy_milliseconds("execution_timeout_ms"),
    "The longest that a worker may run a job; 5s to 7d.",
    default="the service's, 10m",
    brief="The longest that a worker may run a job; 10m",
    field="execution_timeout_ms",
)
LOW_PRIORITY: Final = _job(
    "low-priority",
    Form(Kind.SWITCH, "", lambda texts: SWITCH.read(texts) or None),
    "Jobs that do not make the endpoint start workers.",
)

POLICY: Final[tuple[Setting[Any], ...]] = (TTL, EXECUTION_TIMEOUT, LOW_PRIORITY)
