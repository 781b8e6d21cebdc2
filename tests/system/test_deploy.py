"""The example of a whole deployment, unchanged but for the URLs it is told."""

import importlib.util
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator.emulator.account.pods import PodSettings
from orchestrator.emulator.serving import serve
from orchestrator.errors import UsageError

pytestmark = pytest.mark.anyio

EXAMPLE = Path(__file__).parents[2] / "examples" / "deploy.py"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def example() -> Any:
    spec = importlib.util.spec_from_file_location("deploy", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def caption(job: Mapping[str, Any]) -> object:
    return {"caption": job["input"]["prompt"]}


@pytest.mark.slow
async def test_a_whole_deployment_is_made_used_and_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"propagation_s": 0.5, "template_release_s": 0, "pods": PodSettings(provisioning_s=0, starting_s=0)}
    async with serve(caption, keys=("a-long-secret-key",), without={"v1": 410}, **settings) as service:
        counts = await example().main(service.environment())
        account = service.emulator.account
        assert counts["succeeded"] == 100
        assert (account.secrets.list(), account.templates.list(), account.endpoints.list()) == ((), (), ())
    printed = capsys.readouterr()
    assert "100 of 100 jobs succeeded" in printed.out
    assert "is EXITED" in printed.out
    assert "is RUNNING" in printed.out
    assert "a-long-secret-key" not in printed.out + printed.err


@pytest.mark.slow
async def test_what_was_created_is_deleted_also_when_a_later_part_fails() -> None:
    subject = example()
    subject.IMAGE = "an image without a tag"
    async with serve(caption) as service:
        with pytest.raises(UsageError, match="needs a tag"):
            await subject.main(service.environment())
        assert service.emulator.account.secrets.list() == ()


@pytest.mark.slow
async def test_what_was_created_is_deleted_also_after_a_ctrl_c(capsys: pytest.CaptureFixture[str]) -> None:
    begun = anyio.Event()

    async def never(job: Mapping[str, Any]) -> object:
        begun.set()
        await anyio.sleep_forever()
        raise AssertionError

    settings = {"propagation_s": 0.0, "template_release_s": 0}
    async with serve(never, **settings) as service, anyio.create_task_group() as group:
        group.start_soon(example().main, service.environment())
        await begun.wait()
        group.cancel_scope.cancel()
    account = service.emulator.account
    assert (account.secrets.list(), account.templates.list(), account.endpoints.list()) == ((), (), ())


@pytest.mark.slow
def test_whoever_asks_for_help_deploys_nothing() -> None:
    told = subprocess.run(
        [sys.executable, EXAMPLE, "--help"], env={}, capture_output=True, text=True, timeout=60, check=False
    )
    assert told.returncode == 0, told.stderr
    assert "this costs a little money" in told.stdout
