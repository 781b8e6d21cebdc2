"""The fault by which the service wants to be left alone."""

import pytest

from orchestrator.emulator.contract.faults import Fault, Faults
from tests.emulator.emulators import client_of, emulator

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@pytest.mark.parametrize(("scale", "seconds"), [(1.0, "3600"), (90.0, "40")])
async def test_each_operation_may_be_answered_with_the_wish_for_an_hour_s_rest(scale: float, seconds: str) -> None:
    """The wish is in the client's seconds, as any `Retry-After`."""
    subject = emulator(faults=Faults(long_pause=1.0), time_scale=scale)
    async with client_of(subject) as client:
        http = client.http
        answers = [
            await http.post("/run", json={"input": {"n": 1}}),
            await http.get("/status/job"),
            await http.post("/retry/job"),
            await http.post("/cancel/job"),
            await http.get("/health"),
        ]
    assert [(each.status_code, each.headers["retry-after"]) for each in answers] == [(429, seconds)] * 5
    assert subject.dice.counts()[Fault.LONG_PAUSE] == 5
