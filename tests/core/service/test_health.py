"""What is read from an answer of `/health`."""

import pytest
from msgspec.structs import replace

from orchestrator.core.service.health import Health, JobCounts, WorkerCounts, health_of, is_of_service


@pytest.mark.parametrize(
    ("body", "health"),
    [
        (
            b'{"jobs":{"inQueue":3,"inProgress":1,"completed":9,"failed":0,"retried":2,"lost":7}}',
            Health(jobs=JobCounts(in_queue=3, in_progress=1, completed=9, failed=0, retried=2, more={"lost": 7})),
        ),
        (
            b'{"workers":{"idle":1,"running":2,"ready":6,"initializing":3,"throttled":4,"unhealthy":5}}',
            Health(
                workers=WorkerCounts(idle=1, running=2, ready=6, initializing=3, throttled=4, unhealthy=5),
            ),
        ),
        (
            b'{"jobs":{"inProgress":"7","inQueue":-7},"workers":{"idle":true,"running":1.5}}',
            Health(
                jobs=JobCounts(more={"inProgress": "7", "inQueue": -7}),
                workers=WorkerCounts(more={"idle": True, "running": 1.5}),
            ),
        ),
        (b'{"jobs":{},"workers":{"running":0}}', Health(workers=WorkerCounts(running=0))),
        (b'{"jobs":null,"note":1}', Health(more={"jobs": None, "note": 1})),
        (b'{"error":"a note","workers":{"idle":1}}', Health(workers=WorkerCounts(idle=1), more={"error": "a note"})),
        (b"{}", Health()),
    ],
)
def test_what_health_says_is_read_and_what_it_does_not_say_is_unknown(body: bytes, health: Health) -> None:
    """Contract, Endpoints: `/health` has worker and job statistics; their shape is not shown."""
    assert health_of(200, body) == replace(health, raw=body)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b'{"jobs":{"inProgress":7},"workers":{"idle":3}}'),
        (301, b"{}"),
        (200, b'{"error":"the endpoint is gone"}'),
        (200, b"<html>"),
        (200, b""),
        (200, b"[]"),
        (200, b'{"jobs":[]}'),
        (200, b"[" * 100_000),
    ],
)
def test_a_refusal_an_error_and_rubbish_are_no_news_of_health(status: int, body: bytes) -> None:
    assert health_of(status, body) is None


@pytest.mark.parametrize(
    ("status", "body", "is_its"),
    [
        (200, b'{"jobs":{"inProgress":7},"workers":{}}', True),
        (200, b"<html>back soon</html>", False),
        (401, b"", True),
        (404, b"<html>", True),
        (502, b'{"jobs":{},"workers":{}}', False),
    ],
)
def test_a_refusal_is_the_services_own_word_and_a_page_or_a_server_error_is_not(
    status: int, body: bytes, is_its: bool
) -> None:
    assert is_of_service(status, body) is is_its
