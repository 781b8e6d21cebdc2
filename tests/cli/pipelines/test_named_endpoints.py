"""Stages whose endpoint stands in the configuration file: a pool, or pods of a template. They are looked up as a pipeline
is recorded, which keeps what they stood for.
"""

import asyncio
from pathlib import Path

import pytest

from orchestrator.api.flows.stage_settings import stage_choices
from orchestrator.core.lanes.via import Via
from orchestrator.core.pods.pod_template import PodTemplate
from orchestrator.core.pools.member import MemberSettings, Prefer
from orchestrator.ledger import read_ledger
from orchestrator.settings.run_settings import RunSettings
from tests.cli.command_line import call

FILE = """
[pools.captions]
endpoints = ["abc123", "def456"]
prefer = "cheap"

[pod-templates.vllm]
template = "vllm-l4"
port = 8000
gpu = "NVIDIA L4"
"""
KEY = {"ORCHESTRATOR_API_KEY": "k"}


def pipeline(stage: str) -> None:
    Path("orchestrator.toml").write_text(FILE, encoding="utf-8")
    Path("p.toml").write_text(
        f'name = "cap"\ninput = "in.jsonl"\n[schedule]\nevery = "1h"\n[stage.a]\n{stage}\n', encoding="utf-8"
    )


def settings() -> RunSettings:
    """Those that the recorded stage has, wherever the configuration file is by then."""
    Path("orchestrator.toml").unlink()

    async def read() -> RunSettings:
        async with read_ledger(Path("orchestrator.db")) as ledger:
            [found] = await ledger.flows.pipelines.all()
            return stage_choices(found.pipeline.stages[0]).run_settings()

    return asyncio.run(read())


def test_pods_of_a_template() -> None:
    pipeline('endpoint = "pods:vllm"\npods = 2\nvia = "http"\npath = "/work"')
    assert call(["apply", "p.toml"], environment=KEY).exit_code == 0
    found = settings()
    assert found.pods == 2
    assert found.pod_template == PodTemplate(name="vllm", template="vllm-l4", port=8000, gpu="NVIDIA L4")


def test_a_pool() -> None:
    pipeline('endpoint = "pool:captions"')
    assert call(["apply", "p.toml"], environment=KEY).exit_code == 0
    found = settings()
    assert ([each.endpoint for each in found.members], found.prefer) == (["abc123", "def456"], Prefer.CHEAP)


def test_a_pool_keeps_the_lanes_and_prices_of_its_members() -> None:
    pipeline('endpoint = "abc123, https://host/v1/"\nprefer = "cheap"')
    with Path("orchestrator.toml").open("a", encoding="utf-8") as file:
        file.write('[endpoints."https://host/v1"]\nvia = "http"\npath = "/work"\nprice-per-second = 0.2\n')
        file.write("[endpoints.abc123]\nprice-per-second = 0.1\n")
    assert call(["apply", "p.toml"], environment=KEY).exit_code == 0
    assert settings().members == (
        MemberSettings("abc123", 0.1),
        MemberSettings("https://host/v1", 0.2, via=Via.HTTP, path="/work"),
    )


@pytest.mark.parametrize(
    ("stage", "told"),
    [
        ('endpoint = "pods:vllm"', "cap: stage.a: pods:vllm is a URL, and what is there has no queue"),
        ('endpoint = "pods:vlm"\nvia = "http"', "has no [pod-templates.vlm]; did you mean vllm?"),
        ('endpoint = "abc123"\npods = 2', "needs to know what pods"),
        ('endpoint = "abc123,https://x"', "cap: stage.a: https://x is a URL, and what is there has no queue"),
        ('endpoint = "pool:caption"', "has no [pools.caption]; did you mean captions?"),
    ],
)
def test_what_does_not_agree_is_refused_with_its_stage(stage: str, told: str) -> None:
    pipeline(stage)
    result = call(["apply", "p.toml"], environment=KEY)
    assert result.exit_code == 2
    assert told in result.stderr
