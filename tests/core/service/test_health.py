"""What is read from an answer of `/health`."""

import pytest

from orchestrator.core.service.health import Health, health_of, is_of_service


@pytest.mark.parametrize(
    ("body", "jobs", "idle", "running"),
    [
        (b'{"jobs":{"inProgress":7,"inQueue":3},"workers":{"idle":2,"running":7,"new":[]}}', 7, 2, 7),
        (b'{"jobs":{"inProgress":-7},"workers":{"idle":-1,"running":-3}}', 0, 0, 0),
        (b'{"jobs":{},"workers":{}}', None, None, None),
        (b'{"workers":{"running":0}}', None, None, 0),
        (b'{"jobs":{"inProgress":"7"},"workers":{"idle":true,"running":1.5}}', None, None, None),
        (b'{"error":"a note","workers":{"idle":1}}', None, 1, None),
        (b"{}", None, None, None),
    ],
)
def test_what_health_says_is_read_and_what_it_does_not_say_is_unknown(
    body: bytes, jobs: int | None, idle: int | None, running: int | None
) -> None:
    found = health_of(200, body)
    assert found is not None
    assert (found.jobs_in_progress, found.workers_idle, found.workers_running) == (jobs, idle, running)


def test_all_figures_of_the_queue_and_the_workers_are_read() -> None:
    body = b'{"jobs":{"inQueue":5},"workers":{"initializing":1,"throttled":2,"unhealthy":3}}'
    assert health_of(200, body) == Health(
        jobs_in_progress=None,
        jobs_in_queue=5,
        workers_idle=None,
        workers_running=None,
        workers_initializing=1,
        workers_throttled=2,
        workers_unhealthy=3,
    )


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
