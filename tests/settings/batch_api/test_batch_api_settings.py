"""What the configuration file says of the Batch API: its keys, its limits, its models."""

from pathlib import Path

import pytest

from orchestrator.batch_api.batch_api_listener import BatchApi
from orchestrator.core.lanes.via import Via
from orchestrator.core.service.addresses import Address
from orchestrator.errors import UsageError
from orchestrator.settings import run_request
from orchestrator.settings.batch_api.batch_api_settings import BATCH_API, BatchApiSettings
from orchestrator.settings.batch_api.served_models import read_models
from orchestrator.settings.configuration_file import ConfigurationFile
from orchestrator.settings.sources import choose
from orchestrator.units import DAY_US

LOOPBACK = Address("127.0.0.1", 0)


def written(folder: Path, text: str) -> str:
    path = folder / "o.toml"
    path.write_text(text)
    return str(path)


def read(folder: Path, text: str) -> BatchApiSettings:
    return choose({"config": written(folder, text)}, {}, BATCH_API).build(BatchApiSettings)


def test_its_table_has_keys_and_limits(tmp_path: Path) -> None:
    text = '[batch-api]\nkeys = { team-a = "env:A", b = "env:B" }\nmax-rows = 7\nkeep-files = "7d"\n'
    found = read(tmp_path, text)
    assert found == BatchApiSettings(keys={"team-a": "A", "b": "B"}, rows_max=7, keep_files_us=7 * DAY_US)
    assert ConfigurationFile(tmp_path / "o.toml").key_variables == {"A", "B"}, "they are secrets of ours"
    assert BatchApiSettings().file_bytes_max == 200_000_000


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('keys = "env:A"', "keys must be a table of texts"),
        ("keys = { a = 7 }", "keys must be a table of texts"),
        ('keys = { a = "sk-123" }', "write env:NAME"),
        ('keys = { "a b" = "env:A" }', "no name of a key"),
        ("max-rows = 0", "no whole number"),
        ("rows = 1", 'no key "rows"'),
    ],
)
def test_what_is_wrong_there_is_said_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told) as refused:
        read(tmp_path, f"[batch-api]\n{text}\n")
    assert "[batch-api] of" in str(refused.value)
    assert "sk-123" not in str(refused.value)


def test_a_model_has_an_endpoint_and_a_lane_and_what_holds_for_all_runs(tmp_path: Path) -> None:
    text = (
        'max-attempts = 7\n[pools.p]\nendpoints = ["e1", "e2"]\n'
        '[models."org/name"]\nendpoint = "abc"\nexecution-timeout = "90s"\n[models.direct]\nendpoint = "https://host.example/v1"\nvia = "openai"\n'
        '[models.pool]\nendpoint = "pool:p"\n'
    )
    models = read_models(written(tmp_path, text), {"ORCHESTRATOR_VIA": "sync"})
    assert [*models] == ["org/name", "direct", "pool"]
    own = models["org/name"].run_settings()
    assert (own.via, own.max_attempts, own.policy.timeout_ms) == (Via.SYNC, 7, 90_000)
    assert models["direct"].run_settings().via is Via.OPENAI
    assert models["direct"][run_request.ENDPOINT] == "https://host.example/v1"
    assert [each.endpoint for each in models["pool"].members] == ["e1", "e2"]
    assert read_models(written(tmp_path, ""), {}) == {}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[models.m]\n", r"\[models.m\] of .*: its endpoint is missing"),
        ('[models.m]\nendpoint = "a"\nvia = "by"', "via in .models.m. of .*none of"),
        ('[models.m]\nendpoint = "a"\nvia = "http"', "go by via = openai"),
        ('[models.m]\nendpoint = "local:f.py:g"', "a function of yours"),
        ('[models.m]\nendpoint = "pool:p"', r"no \[pools.p\]"),
        ('[models.m]\nendpoint = "a"\nmax-attempts = 0', "max-attempts in .models.m. of"),
        ('[models.m]\nendpoint = "a"\noutput = "f"', 'no key "output"'),
        ('[models]\nm = "a"', "models has a table for each model"),
    ],
)
def test_what_is_wrong_with_a_model_is_said_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        read_models(written(tmp_path, text), {})


def test_a_model_that_cannot_be_served_so_is_refused_before_anything_begins(tmp_path: Path) -> None:
    models = read_models(written(tmp_path, '[models.m]\nendpoint = "https://host.example/v1"'), {})
    with pytest.raises(UsageError, match=r"endpoint in \[models.m\] of .*: .* what is there has no queue"):
        BatchApi(LOOPBACK, BatchApiSettings(), models, {})


def test_it_listens_for_all_only_where_there_are_keys_which_are_all_set_and_all_different(tmp_path: Path) -> None:
    models = read_models(written(tmp_path, '[models.m]\nendpoint = "abc123"'), {})
    keys = BatchApiSettings(keys={"a": "A", "b": "B"})
    with pytest.raises(UsageError, match="has no keys"):
        BatchApi(Address("0.0.0.0", 0), BatchApiSettings(), models, {})
    with pytest.raises(UsageError, match="b has its key in B"):
        BatchApi(LOOPBACK, keys, models, {"A": "x"})
    with pytest.raises(UsageError, match="the same key"):
        BatchApi(LOOPBACK, keys, models, {"A": "x", "B": "x"})
    with pytest.raises(UsageError, match="names no model"):
        BatchApi(LOOPBACK, BatchApiSettings(), {}, {})
    with BatchApi(Address("0.0.0.0", 0), keys, models, {"A": "x", "B": "y"}) as api:
        assert api.url.endswith("/v1")
    with BatchApi(LOOPBACK, BatchApiSettings(), models, {}) as first:
        port = int(first.url.split(":")[2].removesuffix("/v1"))
        with pytest.raises(UsageError, match="another program"):
            BatchApi(Address("127.0.0.1", port), BatchApiSettings(), models, {})
