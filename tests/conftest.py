"""How async tests are run.

An async test is marked `anyio` and runs on asyncio, in real time. A module whose tests want virtual time says so:

    pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

or `pytest.mark.virtual_time(seed=7)`. Each test then has a fresh `tests.simulation.loop.VirtualLoop` whose time starts
at zero. The marker belongs to a module as a whole, because the backend does (so that Hypothesis tests and
module-wide fixtures can use it); on a single test it is an error. A test that needs several worlds one after the
other is a plain function that calls `tests.simulation.run.run`.

Hypothesis draws the same examples on every run and times none of them: a test must not depend on luck or on the machine.
`pytest --hypothesis-profile=thorough` draws many, and others each time.

What is loaded and collected is no garbage: the collector of cycles looks at what the tests make only, and more rarely. At
its own pace an eighth of the processor time of tests in this process was its (measured).

A test that is not marked `slow` may take so much of a processor, and no more: `tests/costs.py`.

What starts real processes comes first, and then the whole runs on virtual time: these are the long tests, and none of
them is to be what all the workers wait for at the end.
"""

import gc
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from tests.costs import Costs
from tests.simulation.loop import VirtualLoop

if TYPE_CHECKING:
    from tests.postgres.databases import Databases

EXAMPLES = 60
EXAMPLES_THOROUGH = 2_000
GC_THRESHOLD = 100_000
"""How many more values than before there must be until the collector looks for cycles; Python's own number is 700."""

hypothesis.settings.register_profile(
    "suite",
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(
    "thorough", hypothesis.settings.get_profile("suite"), max_examples=EXAMPLES_THOROUGH, derandomize=False
)
hypothesis.settings.load_profile("suite")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "virtual_time(seed=0): the async tests of this module run on virtual time")
    gc.set_threshold(GC_THRESHOLD)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # we may have been started in the background (&)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # what tests start must not ignore it, too


@pytest.hookimpl(wrapper=True)
def pytest_sessionstart(session: pytest.Session) -> Iterator[None]:
    coverage = session.config.pluginmanager.get_plugin("_cov")
    is_first = hasattr(session.config, "workerinput") or getattr(session.config.option, "dist", "no") != "no"
    controller = coverage and coverage.cov_controller
    if is_first and controller is not None:
        # In a worker of xdist pytest-cov begins to measure twice: the first measurement, which nobody reads, would go
        # on. So would that of the process that hands out the tests.
        controller.cov.stop()
    measured = None if controller is None else "tests/" if True in session.config.option.cov_source else "tests/core/"
    session.config.pluginmanager.register(Costs(measured))
    yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        module = item.getparent(pytest.Module)
        if item.get_closest_marker("virtual_time") and not (module and module.get_closest_marker("virtual_time")):
            raise pytest.UsageError(f"{item.nodeid}: virtual_time marks a module (pytestmark), not a single test")
    items.sort(key=lambda item: [item.get_closest_marker(name) is None for name in ("system", "virtual_time")])


def pytest_collection_finish() -> None:
    gc.freeze()


@pytest.fixture(scope="session")
def databases(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> Iterator["Databases"]:
    """Databases on a server of PostgreSQL that all processes of this run of the tests share."""
    yield from _databases(pytestconfig, _shared(tmp_path_factory, worker_id))


@pytest.fixture(scope="session")
def durable_databases(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> Iterator["Databases"]:
    """The same on one that the program trusts with a ledger: what is committed there is on its disk."""
    shared = _shared(tmp_path_factory, worker_id) / "durable"
    shared.mkdir(exist_ok=True)
    yield from _databases(pytestconfig, shared, is_durable=True)


def _shared(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    own = tmp_path_factory.getbasetemp()
    return own if worker_id == "master" else own.parent


def _databases(config: pytest.Config, shared: Path, *, is_durable: bool = False) -> Iterator["Databases"]:
    from tests.postgres.databases import Databases
    from tests.postgres.server import NAMED, server_url

    # Who has started the server waits for the other processes: not as a part of its last test, whose time is bounded.
    use = ExitStack()
    config.add_cleanup(use.close)
    made = Databases(use.enter_context(server_url(shared, is_durable=is_durable)))
    yield made
    made.close(stays=not is_durable and NAMED in os.environ)


@pytest.fixture(scope="module")
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """The backend of the module's async tests, with its options."""
    marker = request.node.get_closest_marker("virtual_time")
    if marker is None:
        return "asyncio", {}
    return "asyncio", {"loop_factory": partial(VirtualLoop, **marker.kwargs)}
