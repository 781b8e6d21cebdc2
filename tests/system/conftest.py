"""A service in its own process, and a folder to work in."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.processes import Desk, Service


@pytest.fixture
def services() -> Iterator[Callable[..., Service]]:
    """Starts services with the options of `service.Options`; ends them after the test."""
    started: list[Service] = []

    def start(**options: Any) -> Service:
        started.append(Service(**options))
        return started[-1]

    yield start
    for service in started:
        service.stop()


@pytest.fixture
def service(services: Callable[..., Service]) -> Service:
    """A service that behaves well."""
    return services()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A folder to work in."""
    return Desk(tmp_path)
