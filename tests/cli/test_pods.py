"""`--pods` and `--pod-template`: what a run's pods are made of, as the command line and the configuration file say."""

from pathlib import Path

import pytest

from orchestrator.core.pods.pod_template import POD_URL_DEFAULT, PodTemplate, WhenDone
from tests.cli.framework.test_request import asked, refused

FILE = """
[pod-templates.vllm]
template = "vllm-l4"
port = 8000
gpu = "NVIDIA L4"
gpu-count = 2
cloud = "secure"
data-centers = ["EU-1", "EU-2"]
when-done = "stop"
ready-within = "5m"

[pod-templates.small]
template = "echo"
port = 80
cpu = "cpu3c"
url = "http://127.0.0.1:8900/proxy/{pod}-{port}"
"""
RUN = ("run", "in.jsonl", "--via", "http")
KEY = {"ORCHESTRATOR_API_KEY": "k"}


@pytest.fixture(autouse=True)
def _file() -> None:
    Path("orchestrator.toml").write_text(FILE, encoding="utf-8")


def test_a_pod_template_takes_the_place_of_the_endpoint() -> None:
    request = asked("--via", "http", "--pods", "3", "--pod-template", "vllm", **KEY)
    settings = request.settings
    assert settings is not None
    assert (request.endpoint, settings.pods) == ("pods:vllm", 3)
    assert settings.pod_template == PodTemplate(
        name="vllm",
        template="vllm-l4",
        port=8000,
        gpu="NVIDIA L4",
        gpu_count=2,
        cloud="SECURE",
        data_centers=("EU-1", "EU-2"),
        when_done=WhenDone.STOP,
        ready_within_us=300_000_000,
    )
    assert settings.pod_template.url == POD_URL_DEFAULT
    same = asked("--via", "http", "--endpoint", "pods:small", **KEY).settings
    assert same is not None
    assert same.pod_template == PodTemplate(
        name="small", template="echo", port=80, cpu="cpu3c", url="http://127.0.0.1:8900/proxy/{pod}-{port}"
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--pod-template", "vlm"), "has no [pod-templates.vlm]; did you mean vllm?"),
        (("--pod-template", "v l"), "names no pod template"),
        (("--pods", "2", "--endpoint", "https://host"), "--pods needs to know what pods; give --pod-template, too"),
        (("--pod-template", "vllm", "--pods", "0"), "is no whole number from 1 to 100"),
        (("--pod-template", "vllm", "--endpoint", "abc123"), "takes the place of --endpoint; leave one out"),
        (("--endpoint", "pods:vllm,https://host"), "pods of a template are a pool by themselves; name them alone"),
        (("--pod-template", "vllm", "--workers-max", "3"), "is for endpoints of the service"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(arguments: tuple[str, ...], told: str) -> None:
    Path("in.jsonl").write_text('{"n":1}\n', encoding="utf-8")
    assert told in refused(*RUN, *arguments, **KEY)


def test_pods_have_no_queue_and_need_a_key() -> None:
    Path("in.jsonl").write_text('{"n":1}\n', encoding="utf-8")
    assert "has no queue" in refused("run", "in.jsonl", "--pod-template", "vllm", **KEY)
    assert "there is no API key" in refused(*RUN, "--pod-template", "vllm")


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ('port = 8000\ngpu = "A"', "[pod-templates.bad] of orchestrator.toml: its template is missing"),
        ('template = "t"\ngpu = "A"', "its port is missing"),
        ('template = "t"\nport = 1', 'write gpu = "NVIDIA L4", or cpu = "cpu3c", and not both'),
        ('template = "t"\nport = 1\ngpu = "A"\ncpu = "B"', "and not both"),
        ('template = "t"\nport = 99999\ngpu = "A"', "is no whole number from 1 to 65535"),
        ('template = "t"\nport = 1\ngpu = "A"\nurl = "http://x"', "write a URL with {pod} and {port} in it"),
        ('template = "t"\nport = 1\ngpu = "A"\ncloud = "private"', "is none of SECURE, COMMUNITY"),
        ('template = "t"\nport = 1\ngpu = "A"\nready-within = "0s"', "must be at least 1 s"),
        ('template = "t"\nport = 1\ngpus = "A"', 'there is no key "gpus"; did you mean gpu?'),
    ],
)
def test_a_template_that_cannot_be_is_refused_with_its_place(table: str, told: str) -> None:
    Path("in.jsonl").write_text('{"n":1}\n', encoding="utf-8")
    Path("orchestrator.toml").write_text(f"[pod-templates.bad]\n{table}\n", encoding="utf-8")
    assert told in refused(*RUN, "--pod-template", "bad", **KEY)
