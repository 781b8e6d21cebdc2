"""`orchestrator apply`: what it hands over, and what it shows."""

import json
from functools import partial
from pathlib import Path

import msgspec

from orchestrator.api.flows.apply import Applied, FireToCome, Recording
from orchestrator.cli.pipelines.apply import show_applied
from tests.cli.command_line import Result, call, requested, shown

APPLIED = Applied(
    name="captions",
    file="captions.toml",
    outcome=Recording.RECORDED,
    version=2,
    stages=("caption", "embed"),
    fires_at="30 2 * * * in Europe/Berlin",
    fires=(
        FireToCome(
            fire="2027-03-28T03:00:00+02:00",
            flow="captions@20270328T010000Z",
            paths={"input": "/in/2027-03-27.jsonl", "embed.output": "/out.jsonl"},
        ),
    ),
    warnings=("keep is missing",),
    endpoints={"caption": "abc123"},
)


def told(*found: Applied, as_json: bool = False) -> Result:
    return shown(partial(show_applied, found, as_json=as_json), COLUMNS="120")


def test_the_next_fires_are_a_table_with_their_files() -> None:
    result = told(APPLIED)
    assert [line.rstrip() for line in result.stdout.splitlines()[2:]] == [
        "2027-03-28T03:00:00+02:00  captions@20270328T010000Z  input: /in/2027-03-27.jsonl",
        "                                                      embed.output: /out.jsonl",
    ]
    assert result.stderr.splitlines() == [
        "captions: 2 stages (caption, embed); 30 2 * * * in Europe/Berlin",
        "captions: caption is at the endpoint abc123",
        "warning: captions: keep is missing",
        "captions: captions.toml is recorded as version 2",
    ]


def test_a_path_in_this_folder_is_told_from_here() -> None:
    fire = msgspec.structs.replace(APPLIED.fires[0], paths={"input": str(Path.cwd() / "in" / "a.jsonl")})
    result = told(msgspec.structs.replace(APPLIED, fires=(fire,)))
    assert result.stdout.rstrip().endswith("input: in/a.jsonl")


def test_only_checking_and_json_are_handed_on() -> None:
    files = [Path("a.toml"), Path("b.toml")]
    assert requested("apply", "a.toml", "b.toml", "--check").flags == {"files": files, "check": True}
    result = told(APPLIED, as_json=True)
    assert [each["version"] for each in json.loads(result.stdout)] == [2]
    assert result.stderr == ""


def test_without_a_file_nothing_is_asked() -> None:
    assert call(["apply"], environment={}).exit_code == 2
