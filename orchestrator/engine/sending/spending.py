"""What was executed, and so spent, of all runs of a ledger: by run, by endpoint, and by day of an endpoint."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from orchestrator.core.gates.brake_gates import BudgetFacts
from orchestrator.core.gates.costs import Costs, DurationTotals
from orchestrator.core.text.figures import money
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.transitions.execution_writes import Place
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import DAY_US

NONE = DurationTotals()

SPENT_SHARE: Final = 0.9
"""Who pays wants to hear of it once so much of the budget is spent."""


class Spending:
    """As the ledger counts it, and by the steps since then. `name_of` says what an endpoint is called where a run may
    be, by the numbers of both.
    """

    def __init__(self, name_of: Callable[[int, int], str]) -> None:
        self._name_of = name_of
        self.of_pods: Callable[[int], float] = lambda _: 0.0
        """What a run has paid for its pods so far."""

        self._of_run: dict[int, DurationTotals] = {}
        self._of_run_at: dict[int, dict[int, DurationTotals]] = defaultdict(dict)
        self._of_endpoint: dict[int, DurationTotals] = {}
        self._of_day: dict[tuple[int, int], DurationTotals] = {}

    def recount(self, executions: Mapping[Place, DurationTotals]) -> None:
        """Goes on from these, in which every step until now is."""
        self._of_run.clear()
        self._of_run_at.clear()
        self._of_endpoint.clear()
        self._of_day.clear()
        for place, took in executions.items():
            self.add(place, took)

    def add(self, place: Place, took: DurationTotals) -> None:
        """More has ended there."""
        run, endpoint, day = place
        self._of_run[run] = DurationTotals.together([self.of_run(run), took])
        self._of_run_at[run][endpoint] = DurationTotals.together([self.of_run_at(run, endpoint), took])
        self._of_endpoint[endpoint] = DurationTotals.together([self.of_endpoint(endpoint), took])
        self._of_day[endpoint, day] = DurationTotals.together([self.of_day(endpoint, day), took])

    def of_run(self, run: int) -> DurationTotals:
        """All of `run`."""
        return self._of_run.get(run, NONE)

    def of_run_at(self, run: int, endpoint: int) -> DurationTotals:
        """All of `run` at an endpoint."""
        return self._of_run_at[run].get(endpoint, NONE)

    def of_endpoint(self, endpoint: int) -> DurationTotals:
        """All at an endpoint, of whichever run."""
        return self._of_endpoint.get(endpoint, NONE)

    def of_day(self, endpoint: int, day: int) -> DurationTotals:
        """All at an endpoint on that day, counted from 1970 (UTC)."""
        return self._of_day.get((endpoint, day), NONE)

    def costs(self, run: int, settings: RunSettings) -> Costs | None:
        """What the executions of `run` cost; None where nobody says what a second of a worker does."""
        price = settings.price or 0.0
        if not price and settings.pod_template is None:
            return None
        return Costs(
            price=price,
            standing=self._standing(run, settings),
            took=self.of_run(run),
            longest_ms=settings.policy.timeout_ms,
            discount=self._discount(run, settings),
        )

    def _standing(self, run: int, settings: RunSettings) -> float:
        return 0.0 if settings.pod_template is None else self.of_pods(run)

    def _discount(self, run: int, settings: RunSettings) -> float:
        if not settings.members and settings.batch_discount is None:
            return 0.0
        return settings.discount({self._name_of(run, number): took for number, took in self._of_run_at[run].items()})

    def why_spent(self, run: int, settings: RunSettings) -> str | None:
        """That most of the budget of `run` is spent."""
        costs = self.costs(run, settings)
        if costs is None or not settings.budget or costs.spent.amount < SPENT_SHARE * settings.budget:
            return None
        return f"{costs.spent} of its budget of {money(settings.budget)} is spent"

    def budgets(
        self,
        run: Run,
        settings: RunSettings,
        *,
        at_service: int,
        endpoint: int | None,
        per_day: float,
        at_endpoint: int,
        now: int,
    ) -> Iterator[BudgetFacts]:
        """Of the budgets of `run`, which has so many jobs `at_service`, and of the day at an `endpoint` with so many
        of all runs, where one is told; that may cost so much `per_day`.
        """
        price, longest_ms = settings.price, settings.policy.timeout_ms
        if price is None and settings.pod_template is not None:
            price, per_day = 0.0, 0.0
        if price is None:
            return
        like = self.of_endpoint(run.endpoint_id if endpoint is None else endpoint)
        if settings.budget:
            discount = self._discount(run.id, settings)
            costs = Costs(
                price=price,
                took=self.of_run(run.id),
                like=like,
                longest_ms=longest_ms,
                standing=self._standing(run.id, settings),
                discount=discount,
            )
            yield BudgetFacts(budget=settings.budget, costs=costs, outstanding=at_service)
        if per_day and endpoint is not None:
            today = self.of_day(endpoint, now // DAY_US)
            there = settings.price_at(self._name_of(run.id, endpoint)) or price
            discount = there * today.saved_s(settings.batch_discount)
            costs = Costs(price=there, took=today, like=like, longest_ms=longest_ms, discount=discount)
            yield BudgetFacts(budget=per_day, costs=costs, outstanding=at_endpoint, of_day=True)
