"""At which endpoints the jobs of runs are; where those of a pool's run wait, and another execution of them is to be;
what holds wherever they are.
"""

from collections import defaultdict
from typing import Protocol

from msgspec.structs import replace

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.service.url_endpoints import is_pods
from orchestrator.engine.endpoint.output_faults import OutputFaults
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.run_settings import RunSettings


class OtherMembers(Protocol):
    """A pool, to one of its members."""

    def other_than(self, endpoint: int) -> int | None:
        """Where a job is to wait that failed at `endpoint`, if another member is well; None: there is none."""
        ...


class RunHomes:
    """Of one process. The jobs of a run without a pool are at home wherever they are."""

    def __init__(self) -> None:
        self.endpoints: dict[int, list[int]] = {}
        """Those of each run that is collected for: its own, and then the others to which jobs of it were sent again."""

        self.names: dict[int, str] = {}
        """What these are called."""

        self.of: dict[int, int] = {}
        """The endpoint in whose line the jobs of a run wait for any member, by the number of the run."""

        self.members: dict[int, set[int]] = defaultdict(set)
        """The endpoints that are members of the run's pool, or were."""

        self.pools: dict[int, OtherMembers] = {}
        """The pools of the runs that are served."""

        self.output_faults = OutputFaults()

    def place(self, run: Run, settings: RunSettings) -> None:
        """Jobs of `run`, which has those `settings`, may be at that endpoint."""
        self.names[run.id] = run.name
        numbers = self.endpoints.setdefault(run.id, [])
        if run.endpoint_id not in numbers:
            numbers.append(run.endpoint_id)
        is_of_pods = settings.pod_template is not None and not is_pods(run.endpoint)
        if is_of_pods or any(run.endpoint == each.endpoint for each in (*settings.members, *settings.former_members)):
            self.members[run.id].add(run.endpoint_id)

    def homeward(self, step: Transition) -> Transition:
        """`step`, which puts a job into the line of its pool, where a member gives it back: but for one that waits for
        its `/retry` there.
        """
        if not self.of or step.after.state is not State.QUEUED or step.after.by_retry:
            return step
        home = self.of.get(step.after.run)
        if home is None or step.after.endpoint not in self.members[step.after.run]:
            return step
        return replace(step, after=replace(step.after, endpoint=home))

    def other_than(self, run: int, endpoint: int) -> int | None:
        """Where in the run's pool a job is to wait whose execution at `endpoint` failed, if another member is well."""
        pool = self.pools.get(run)
        return None if pool is None or endpoint not in self.members[run] else pool.other_than(endpoint)
