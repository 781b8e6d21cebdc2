"""Leases and pods for tests."""

from typing import Any

from orchestrator.core.pods.pod_lease import LeaseState, ListedPod, PodLease
from orchestrator.core.pods.pod_template import PodTemplate

T0 = 1_000_000_000_000
TEMPLATE = PodTemplate(name="vllm", template="vllm-l4", port=8000, gpu="NVIDIA L4")


def lease(state: LeaseState = LeaseState.WANTED, **changes: Any) -> PodLease:
    """A lease of a new pod, wanted at `T0`, whose pod is known unless it is only wanted."""
    usual = {
        "id": 1,
        "run": 7,
        "name": "in-ff-1",
        "service_url": "http://s",
        "rest_url": "http://r",
        "template": TEMPLATE,
        "is_new": True,
        "wanted_at": T0,
        "pod": None if state is LeaseState.WANTED else "p1",
        "began_at": None if state is LeaseState.WANTED else T0,
    }
    return PodLease(state=state, **{**usual, **changes})


def pod(status: str = "RUNNING", **changes: Any) -> ListedPod:
    """The pod of that lease."""
    return ListedPod(**{"id": "p1", "name": "in-ff-1", "status": status, "per_hour": 0.5, **changes})
