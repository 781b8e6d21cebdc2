"""A pytest fixture that serves an emulator in a thread, for tests of any kind, async or not.

    from orchestrator.emulator.pytest_fixture import emulated_service  # in conftest.py

    def test_it(emulated_service):
        service = emulated_service(my_handler)
        assert requests.post(f"{service.origin}/v2/any/runsync", ...)

Each call serves another emulator, on a port of its own, until the test ends. pytest is not needed by anything else.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from orchestrator.emulator.serving import ServedEmulator, serve

__all__ = ["emulated_service"]


@pytest.fixture
def emulated_service() -> Iterator[Callable[..., ServedEmulator]]:
    """Serves an emulator: takes what `orchestrator.emulator.serve` takes, returns where it is reached."""
    with ExitStack() as stack:
        portal = stack.enter_context(start_blocking_portal())

        def start(*arguments: Any, **settings: Any) -> ServedEmulator:
            return stack.enter_context(portal.wrap_async_context_manager(serve(*arguments, **settings)))

        yield start
