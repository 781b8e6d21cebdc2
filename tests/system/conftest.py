"""A service in its own process, and a folder to work in."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.system.processes import Desk, Service
from tests.system.starter import Starter


@pytest.fixture(scope="session")
def starter() -> Iterator[Starter]:
    """Starts the program and the service without loading them anew."""
    starter = Starter()
    starter.until_ready()
    yield starter
    starter.close()


@pytest.fixture
def services(starter: Starter, tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """Starts services with the options of `service.Options`; ends them after the test."""
    started: list[Service] = []

    def start(**options: Any) -> Service:
        process = starter.start("tests.system.service:main", [], folder=tmp_path, environment={})
        started.append(Service(process, **options))
        return started[-1]

    yield start
    for service in started:
        service.stop()


@pytest.fixture
def service(services: Callable[..., Service]) -> Service:
    """A service that behaves well."""
    return services()


@pytest.fixture
def desk(tmp_path: Path, starter: Starter) -> Desk:
    """A folder to work in."""
    return Desk(tmp_path, partial(starter.start, "orchestrator.cli:main"))
