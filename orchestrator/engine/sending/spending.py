"""What was executed of all runs of a ledger: by run, by endpoint, and by day of an endpoint."""

from collections.abc import Mapping

from orchestrator.core.gates.costs import DurationTotals
from orchestrator.ledger.transitions.execution_writes import Place

NONE = DurationTotals()


class Spending:
    """As the ledger counts it, and by the steps since then."""

    def __init__(self) -> None:
        self._of_run: dict[int, DurationTotals] = {}
        self._of_endpoint: dict[int, DurationTotals] = {}
        self._of_day: dict[tuple[int, int], DurationTotals] = {}

    def recount(self, executions: Mapping[Place, DurationTotals]) -> None:
        """Goes on from these, in which every step until now is."""
        self._of_run.clear()
        self._of_endpoint.clear()
        self._of_day.clear()
        for place, took in executions.items():
            self.add(place, took)

    def add(self, place: Place, took: DurationTotals) -> None:
        """More has ended there."""
        run, endpoint, day = place
        self._of_run[run] = DurationTotals.together([self.of_run(run), took])
        self._of_endpoint[endpoint] = DurationTotals.together([self.of_endpoint(endpoint), took])
        self._of_day[endpoint, day] = DurationTotals.together([self.of_day(endpoint, day), took])

    def of_run(self, run: int) -> DurationTotals:
        """All of `run`."""
        return self._of_run.get(run, NONE)

    def of_endpoint(self, endpoint: int) -> DurationTotals:
        """All at an endpoint, of whichever run."""
        return self._of_endpoint.get(endpoint, NONE)

    def of_day(self, endpoint: int, day: int) -> DurationTotals:
        """All at an endpoint on that day, counted from 1970 (UTC)."""
        return self._of_day.get((endpoint, day), NONE)
