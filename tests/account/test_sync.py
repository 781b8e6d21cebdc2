"""The account without an event loop of the program's own."""

import inspect
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import httpx
import pytest

from orchestrator.account import (
    Account,
    BlockingAccount,
    BlockingEndpoints,
    BlockingPods,
    BlockingSecrets,
    BlockingTemplates,
    GpuRequest,
    PodCreate,
    ProblemError,
)
from orchestrator.account.endpoints.endpoints import Endpoints
from orchestrator.account.pods.pods import Pods
from orchestrator.account.sync import AccountOptions
from orchestrator.account.templates.secrets import Secrets
from orchestrator.account.templates.templates import Templates
from orchestrator.client import InProcess
from orchestrator.clock import SystemClock
from orchestrator.emulator.contract.answers import ConnectionCut
from orchestrator.errors import UsageError
from tests.emulator.pod_service import AT_ONCE, KEY, PodService

SPEC = PodCreate(name="trainer", image="img:1", gpu=GpuRequest(id="NVIDIA L4"))


@pytest.fixture
def account() -> Iterator[BlockingAccount]:
    service = PodService(AT_ONCE, clock=SystemClock())
    made = BlockingAccount(KEY, transport=InProcess(service.app, cut=ConnectionCut), base_url="http://pods")
    with made as opened:
        assert opened is made
        yield opened


def test_every_call_waits_for_its_end_and_returns_what_the_other_does(account: BlockingAccount) -> None:
    seen: list[str] = []
    pod = account.pods.create(SPEC, wait=5, watch=lambda pod: seen.append(pod.status))
    assert (pod.name, pod.status) == ("trainer", "RUNNING")
    assert [each.id for each in account.pods.list(limit=5)] == [pod.id]
    assert account.pods.stop(pod.id).status == "EXITED"
    assert [window.name for window in account.pods.windows] == ["minute", "hour", "day"]
    account.pods.terminate(pod.id)
    with pytest.raises(ProblemError, match="404"):
        account.pods.show(pod.id)
    assert "create" in dir(account.pods)
    assert str(account.pods.create.__doc__).startswith("Creates a pod")
    assert "spec" in inspect.signature(account.pods.create).parameters
    assert "self" not in inspect.signature(account.pods.create).parameters
    assert KEY not in repr(account) + repr(account.pods)


PARTS = (
    (Pods, BlockingPods),
    (Endpoints, BlockingEndpoints),
    (Templates, BlockingTemplates),
    (Secrets, BlockingSecrets),
)


@pytest.mark.parametrize(("part", "blocking"), PARTS)
def test_no_call_of_the_other_is_missing(part: type, blocking: type) -> None:
    def names(of: type) -> set[str]:
        return {name for name in vars(of) if not name.startswith("_")}

    assert names(part) == names(blocking)


def test_it_takes_what_the_other_takes() -> None:
    takes = inspect.signature(Account).parameters
    assert set(AccountOptions.__annotations__) == set(takes) - {"service"}


def test_it_works_beside_a_loop_and_from_several_threads(account: BlockingAccount) -> None:
    async def main() -> int:
        return len(account.pods.list())

    assert anyio.run(main) == 0
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(len(account.pods.list()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [0, 0, 0]


def test_what_is_wrong_is_said_as_by_the_other() -> None:
    with pytest.raises(UsageError, match="the API key is empty"):
        BlockingAccount("")
    unknown: Any = {"colour": "red"}
    with pytest.raises(TypeError, match="colour"):
        BlockingAccount(KEY, **unknown)
    closed = BlockingAccount(KEY, transport=httpx.MockTransport(lambda _: httpx.Response(200, json={"pods": []})))
    with pytest.raises(UsageError, match=r"account\.pods is for the block"):
        _ = closed.pods
    for _ in range(2):  # again, with a loop of its own each time
        with closed:
            assert closed.pods.list() == ()
            with pytest.raises(UsageError, match="open already"):
                closed.__enter__()
