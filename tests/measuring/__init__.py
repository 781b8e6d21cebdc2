"""What coverage is measured by: those tests that it takes, and no others, since measured code runs at half the speed.

A test is measured unless it is listed in `not_measured.txt`, because cheaper ones run the same lines, or belongs to
`ROOMS`, where whole programs run, mostly in processes of their own. So whoever adds a test need not think of it: the
list is written by `python -m tests.measuring`, now and then. What a module does when it is imported is the same in
every worker, and measured in the first only.
"""

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

ROOMS: Final = ("benchmarks", "crashes", "hostile", "limits", "narrow", "planted", "simulation", "system")
LIST: Final = Path(__file__).with_name("not_measured.txt")


def name_of(nodeid: str) -> str:
    """The function of a test, which is one name for all its parameters."""
    return nodeid.partition("[")[0]


def is_whole_program(nodeid: str) -> bool:
    """Whether the test belongs to a room where nothing is measured."""
    return nodeid.startswith(tuple(f"tests/{room}/" for room in ROOMS))


def install(config: pytest.Config) -> None:
    """Lets pytest-cov measure what is to be measured only. Called when it has begun to, before anything is collected."""
    measuring = config.pluginmanager.get_plugin("_cov")
    controller = measuring and measuring.cov_controller
    if controller is None or not controller.started:  # no --cov, or what only distributes the tests
        return
    if getattr(config, "workerinput", {"workerid": "gw0"})["workerid"] == "gw0":
        program = importlib.import_module("orchestrator")
        for module in pkgutil.walk_packages(program.__path__, "orchestrator."):
            importlib.import_module(module.name)
    controller.pause()
    listed = frozenset() if config.option.cov_context else frozenset(LIST.read_text().split())
    config.pluginmanager.register(_Measuring(controller, listed), "measuring")


class _Measuring:
    def __init__(self, controller: Any, listed: frozenset[str]) -> None:
        self._controller, self._listed = controller, listed

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        if is_whole_program(item.nodeid) or name_of(item.nodeid) in self._listed:
            return (yield)
        self._controller.resume()
        try:
            return (yield)
        finally:
            self._controller.pause()

    pytest_runtest_call = pytest_runtest_teardown = pytest_runtest_setup
