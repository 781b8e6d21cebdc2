"""What a filter says of the columns of jobs, in SQL."""

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    ScalarSelect,
    and_,
    case,
    false,
    func,
    literal,
    literal_column,
    or_,
    select,
    true,
)

from orchestrator.core.filters.filter import (
    And,
    ClassIs,
    ClusterIs,
    Comparison,
    Filter,
    Member,
    Not,
    Number,
    Or,
    RetriedFor,
    StateIs,
    Text,
)
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.text.wording import folded
from orchestrator.ledger.expressions import as_number, contains, is_not_true
from orchestrator.ledger.schema.job_tables import GIVEN_UP, failed_executions, intakes, jobs, outcomes, values_check

_GIVEN_UP: Final[ColumnElement[bool]] = literal_column(values_check("jobs.state", GIVEN_UP))


ATTEMPTS: Final = jobs.c.failures + as_number(jobs.c.state == literal_column(f"'{State.SUCCEEDED}'"))


def first_job_of(run: int | BindParameter[int]) -> ScalarSelect[int]:
    """The number before which none of the jobs of `run` has its own: what is read by numbers begins there."""
    return select(func.min(intakes.c.first_job)).where(intakes.c.run_id == run).scalar_subquery()


def condition(chosen: Filter) -> ColumnElement[bool]:
    """What the columns tell of it. Members of the input are taken for true: what is found is looked at again."""
    match chosen:
        case And(parts):
            return and_(true(), *map(condition, parts))
        case Or(parts):
            return or_(false(), *map(condition, parts))
        case Member() | Not(Member()):
            return true()
        case Not(one):
            return is_not_true(condition(one))
        case StateIs() | ClassIs() | ClusterIs() | RetriedFor() | Text() | Number():
            return _meets(chosen)


def _meets(leaf: StateIs | ClassIs | ClusterIs | RetriedFor | Text | Number) -> ColumnElement[bool]:
    match leaf:
        case StateIs(state):
            return jobs.c.state == state.value
        case ClassIs(trouble):
            return _GIVEN_UP & (jobs.c.trouble == trouble.value)
        case ClusterIs(key):
            return _of_failure(outcomes.c.error_key) == key
        case RetriedFor(key):
            kinds = select(failed_executions.c.error_key).where(failed_executions.c.job_id == jobs.c.id)
            return literal(key).in_(kinds.correlate(jobs).scalar_subquery())
        case Text(of, comparison, text):
            return _is_text(jobs.c.custom_id if of == "id" else _of_failure(outcomes.c.message), comparison, text)
        case Number(of, comparison, number):
            column = {"attempts": ATTEMPTS, "line": jobs.c.line, "ended": jobs.c.ended_at}[of]
            return _ORDERED[comparison](column, number)


def _of_failure(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """A column of the outcome, which is read where there was a failure or a cancellation only."""
    return case((_GIVEN_UP, select(column).where(outcomes.c.job_id == jobs.c.id).correlate(jobs).scalar_subquery()))


def _is_text(column: ColumnElement[Any], comparison: Comparison, text: str) -> ColumnElement[bool]:
    match comparison:
        case Comparison.EQUAL:
            return column == text
        case Comparison.BEGINS:
            return func.substr(column, 1, len(text)) == text
        case _:
            return contains(column, folded(text))


_ORDERED: Final[Mapping[Comparison, Callable[[Any, int], ColumnElement[bool]]]] = {
    Comparison.EQUAL: operator.eq,
    Comparison.LESS: operator.lt,
    Comparison.AT_MOST: operator.le,
    Comparison.MORE: operator.gt,
    Comparison.AT_LEAST: operator.ge,
}
