"""What pods are made of, and where they are reached."""

import pytest
from msgspec.structs import replace

from orchestrator.core.pods.pod_template import WhenDone, parse_pod_url
from tests.core.pods.leases import TEMPLATE


def test_pods_are_such_as_another_template_makes_whatever_that_is_called_and_how_they_end() -> None:
    assert TEMPLATE.makes_the_same(
        replace(TEMPLATE, name="x", when_done=WhenDone.STOP, ready_within_us=1, url="http://{pod}")
    )
    assert not TEMPLATE.makes_the_same(replace(TEMPLATE, gpu="NVIDIA A40"))
    assert not TEMPLATE.makes_the_same(replace(TEMPLATE, port=8001))


def test_the_url_has_the_place_of_the_pod() -> None:
    assert parse_pod_url("http://here/proxy/{pod}-{port}/") == "http://here/proxy/{pod}-{port}"
    assert replace(TEMPLATE, url="http://here/{pod}/{port}").url_of("abc") == "http://here/abc/8000"
    for wrong in ("http://here", "ftp://{pod}", "{pod}"):
        with pytest.raises(ValueError, match=r"write a URL with \{pod\}"):
            parse_pod_url(wrong)
