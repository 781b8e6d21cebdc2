"""How many questions a job takes by polling alone, in its short form."""

import pytest

from tests.simulation.questions import MOST, Case, Endpoint

pytestmark = pytest.mark.no_cover


@pytest.mark.parametrize(
    "case",
    [
        Case(execution_s=0.5, workers=60, jobs=1_000),
        Case(execution_s=0.5, workers=5, jobs=2_000),
        Case(execution_s=2.5, workers=125, jobs=2_000),
        Case(execution_s=60, workers=600, jobs=3_000),
        Case(execution_s=600, workers=2_000, jobs=3_000),
    ],
    ids=str,
)
def test_however_long_executions_take_and_jobs_queue_two_questions_suffice(case: Case) -> None:
    assert Endpoint(case).play() <= MOST
