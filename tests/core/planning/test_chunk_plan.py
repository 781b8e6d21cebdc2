"""Plans of rows that travel together: the limits are of requests, and the work is of rows."""

import pytest

from orchestrator.core.chunks.chunk_terms import ChunkTerms
from orchestrator.core.planning.bottlenecks import Bottleneck, SendingLimits
from orchestrator.core.planning.forecast import ExecutionSample, Workers
from orchestrator.core.planning.plan_types import Batch, Known, Plan, Terms
from orchestrator.core.planning.planner import plan_of
from orchestrator.units import HOUR_US, MILLISECOND_US, SECOND_US

KNOWN = Known(times=ExecutionSample.given(20 * MILLISECOND_US), workers=Workers(most=60, warm=60))


def plan(chunk: ChunkTerms | None, *, input_bytes: int = 0) -> Plan:
    terms = Terms(ttl_us=24 * HOUR_US, execution_timeout_us=600 * SECOND_US, chunk=chunk)
    return plan_of(Batch(rows=100_000, input_bytes=input_bytes), "abc", SendingLimits(), terms, KNOWN)


def test_a_hundred_thousand_brief_rows_take_a_minute_instead_of_a_quarter_of_an_hour() -> None:
    alone, together = plan(None), plan(ChunkTerms(rows=16))
    assert (alone.chunk_rows, together.chunk_rows) == (None, 16)
    assert alone.finish_s is not None
    assert together.finish_s is not None
    assert 900 < alone.finish_s < 1_300
    assert together.finish_s < 90
    assert alone.executing_s == pytest.approx(together.executing_s, rel=0.01)
    assert plan(ChunkTerms(rows=1_000)).binds is Bottleneck.WORKERS


def test_how_many_rows_a_size_holds_follows_from_the_input() -> None:
    size = ChunkTerms(bytes=16_000)
    assert plan(size, input_bytes=100_000_000).chunk_rows == 16
    assert plan(size, input_bytes=10_000_000_000).chunk_rows == 1
    assert plan(size).chunk_rows == 1
