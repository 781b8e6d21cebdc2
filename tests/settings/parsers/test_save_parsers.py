"""How it is written what is saved, and from where links are fetched."""

from pathlib import Path

import pytest

from orchestrator.settings.outputs.save_settings import SAVE
from orchestrator.settings.parsers.save_parsers import parse_networks, parse_saves


def test_a_file_counts_from_the_folder_at_hand_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    [rule] = parse_saves(["output.image=../out/{custom_id}.png"])
    assert rule.template == f"{tmp_path.parent}/out/{{custom_id}}.png"
    assert parse_saves(SAVE.value_type.write((rule,))) == (rule,)


def test_two_rules_for_one_file_and_a_place_that_cannot_be_written_are_refused() -> None:
    with pytest.raises(ValueError, match="would be one file"):
        parse_saves(["output.a=out/{custom_id}", "output.b=./out/{custom_id}"])
    with pytest.raises(ValueError, match="https:// is for reading"):
        parse_saves(["output.a=https://example.org/{custom_id}"])
    with pytest.raises(ValueError, match="a user or a password"):
        parse_saves(["output.a=s3://me:secret@bucket/{custom_id}"])


def test_an_object_of_a_store_is_where_it_is() -> None:
    [rule] = parse_saves(["output.a=s3://bucket/out/{custom_id}.png"])
    assert (rule.template, rule.folder) == ("s3://bucket/out/{custom_id}.png", "s3://bucket/out")
    assert parse_saves(["output.a=S3://Bucket/{custom_id}.png"])[0].template == "s3://Bucket/{custom_id}.png"
    for place in ("s3://{custom_id}/a.png", "s3://a-{custom_id}/a.png"):
        with pytest.raises(ValueError, match="a placeholder in the name of its bucket"):
            parse_saves([f"output.a={place}"])


def test_networks_are_written_as_networks() -> None:
    assert parse_networks(["10.2.0.0/16, fd00::7", "127.0.0.1"]) == ("10.2.0.0/16", "fd00::7", "127.0.0.1")
    with pytest.raises(ValueError, match=r"\"10.2.0.1/16\" is no network"):
        parse_networks(["10.2.0.1/16"])
