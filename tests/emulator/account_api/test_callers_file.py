"""Callers, permissions and quotas of an emulated account, as a file and flags say them."""

import textwrap
from pathlib import Path

import httpx
import pytest

from orchestrator.api.emulation.emulate import emulator_settings
from orchestrator.api.emulation.emulate_request import EmulateRequest
from orchestrator.emulator.contract.callers import SCOPES, Caller
from orchestrator.emulator.emulator_settings import EmulatorSettings, callers_of
from orchestrator.errors import UsageError
from tests.emulator.emulators import emulator

FILE = """
capacity = 2
balance = false
template-release = 1.5

[quotas]
minute = 5

[caller.reader]
key = "k-reader"
scopes = ["pods:read", "serverless:read", "templates:read"]

[caller.ann]
key = "k-ann"
user = "both"
session = true
teams = ["red"]
exempt = true

[caller.of-red]
key = "k-red"
team = "red"
"""


def settings(folder: Path, text: str = FILE, **more: object) -> EmulatorSettings:
    file = folder / "accounts.toml"
    file.write_text(text, encoding="utf-8")
    return emulator_settings(EmulateRequest(accounts_file=file, **more))  # type: ignore[arg-type]


def test_a_file_says_who_calls_and_what_is_left(tmp_path: Path) -> None:
    found = settings(tmp_path, keys=("k",))
    assert (found.pods.capacity, found.pods.balance, found.template_release_s) == (2, False, 1.5)
    assert {name: quota.requests for name, quota in found.pods.quotas.items()} == {
        "minute": 5,
        "hour": 3000,
        "day": 50_000,
    }
    assert callers_of(found) == {
        "k": Caller(),
        "k-reader": Caller(
            user="reader", scopes=frozenset({"pods:read", "serverless:read", "templates:read"}), session=False
        ),
        "k-ann": Caller(user="both", scopes=SCOPES, session=True, teams=frozenset({"red"}), exempt=True),
        "k-red": Caller(user="of-red", team="red"),
    }


def test_the_file_of_the_page_is_one(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "interface-emulator.md").read_text(encoding="utf-8")
    block = page.partition("    capacity = 2")[2].partition("\n`scopes`")[0]
    found = settings(tmp_path, textwrap.dedent("    capacity = 2" + block))
    assert set(callers_of(found) or ()) == {"the-key-of-a-reader", "the-token-of-ann", "the-key-of-a-team"}


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    found = settings(tmp_path, quotas=("minute=7", "day=1"), capacity=0, template_release_s=0.0)
    assert [found.pods.quotas[name].requests for name in ("minute", "hour", "day")] == [7, 3000, 1]
    assert (found.pods.capacity, found.template_release_s) == (0, 0)
    assert not settings(tmp_path, "", no_balance=True).pods.balance
    assert settings(tmp_path, "").pods.balance


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("capacity = 'x'", "capacity must be 'int', got 'str'"),
        ("capacity = -1", "capacity must be 'int' >= 0"),
        ("capasity = 1", "there is no key 'capasity'; the keys are capacity, balance, template-release"),
        ("[quotas]\nminute = 0", r"\[quotas\]: minute must be 'int' >= 1"),
        ("[quotas]\nweek = 1", r"\[quotas\]: there is no key 'week'; the keys are minute, hour, day"),
        ("quotas = 3", r"quotas must be a table, as in \[quotas\]"),
        ("caller = 'k'", r"caller must be a table, as in \[caller.ann\]"),
        ("caller.ann = 'k'", r"caller must be a table, as in \[caller.ann\]"),
        ("[caller.ann]", r"\[caller.ann\]: there has to be a key 'key'; the keys are key, user"),
        ("[caller.ann]\nkey = ''", r"\[caller.ann\]: key must be 'str' of length >= 1"),
        (
            "[caller.ann]\nkey = 'k'\nscopes = ['pods']",
            r"\[caller.ann\]: scopes: there is no 'pods'; there are pods:re",
        ),
        ("[caller.ann]\nkey = 'k'\nteams = 'red'", r"\[caller.ann\]: teams must be 'array', got 'str'"),
        ("[caller.ann]\nkey = 'private'\n[caller.bob]\nkey = 'private'", r"\[caller.bob\]: key: another caller has it"),
        ("capacity", "this is not TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name_and_the_key(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        settings(tmp_path, text)
    assert str(refused.value).startswith(f"accounts file {tmp_path / 'accounts.toml'}")
    assert "private" not in str(refused.value)


@pytest.mark.parametrize("quota", ["minute", "minute=", "minute=0", "week=1", "minute=x"])
def test_a_wrong_quota_is_refused(quota: str) -> None:
    with pytest.raises(UsageError, match=f"quota '{quota}': write it as WINDOW=N"):
        emulator_settings(EmulateRequest(quotas=(quota,)))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        emulator_settings(EmulateRequest(accounts_file=tmp_path / "none.toml"))


@pytest.mark.anyio
async def test_a_key_without_the_permission_is_refused_by_every_interface(tmp_path: Path) -> None:
    """Contract of jobs, Authentication 2: 401; of pods, Authentication 2: 403; GraphQL's own form is not shown."""
    subject = emulator(pods=settings(tmp_path).pods)

    async def asked(key: str, method: str, path: str, **body: object) -> int:
        return (await http.request(method, path, headers={"authorization": f"Bearer {key}"}, json=body)).status_code

    async def message(key: str, query: str) -> object:
        answer = await http.post(f"/graphql?api_key={key}", json={"query": query})
        return answer.json().get("errors", [{}])[0].get("message")

    async with httpx.AsyncClient(transport=httpx.ASGITransport(subject.app), base_url="http://emulator") as http:
        for key, run, create in (("k-reader", 401, 403), ("k-red", 200, 402)):
            assert await asked(key, "GET", "/v2/ep/health") == 200
            assert await asked(key, "POST", "/v2/ep/run", input={"n": 1}) == run
            assert await asked(key, "GET", "/v1/endpoints") == 200
            assert await asked(key, "POST", "/v1/endpoints") == (401 if run == 401 else 400)
            assert await asked(key, "GET", "/v2/pods") == 200
            assert await asked(key, "POST", "/v1/templates") == (401 if run == 401 else 400)
            assert await asked(key, "GET", "/v2/templates") == 200
            assert await asked(key, "POST", "/v2/serverless") == (403 if run == 401 else 422)
            pod = {"name": "p", "image": "i:1", "gpu": {"id": "g", "count": 1}}
            assert await asked(key, "POST", "/v2/pods", **pod) == create
        assert await asked("another", "GET", "/v2/ep/health") == await asked("another", "GET", "/v1/endpoints") == 401
        assert await message("k-reader", "{ myself { podTemplates { id } } }") is None
        assert await message("k-reader", "{ myself { secrets { id } } }") == "access denied"
        assert await message("k-reader", 'mutation { deleteTemplate(templateName: "t") }') == "access denied"
        assert await message("k-red", 'mutation { deleteTemplate(templateName: "t") }') == "template not found"
