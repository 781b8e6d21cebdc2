import pytest

from orchestrator.core.text.object_urls import (
    checked_url,
    file_name_for,
    is_object_url,
    is_web_url,
    object_name,
    shown_url,
)


@pytest.mark.parametrize("text", ["s3://b/k", "S3://b/k", "gs://b/k", "ftp://h/f"])
def test_what_begins_like_a_url_is_meant_as_one(text: str) -> None:
    assert is_object_url(text)


@pytest.mark.parametrize("text", ["rows.jsonl", "/s3/b", "s3:/b/k", "-", "a:b//c", "C://x"[1:]])
def test_a_path_is_none(text: str) -> None:
    assert not is_object_url(text)


@pytest.mark.parametrize(
    "text",
    [
        "s3://b/k/rows.jsonl",
        "gs://b/k",
        "az://c/k",
        "https://h:8443/f?X-Amz-Signature=1",
        "http://h/f",
        "hf://datasets/a/b/c",
    ],
)
def test_a_good_one_stays_as_it_is(text: str) -> None:
    assert checked_url(text) == text


def test_the_scheme_is_written_in_one_way() -> None:
    assert checked_url("S3://Bucket/Key") == "s3://Bucket/Key"


@pytest.mark.parametrize("text", ["ftp://host/file", "s3a://b/k", "file:///etc/passwd"])
def test_an_unknown_scheme_is_told_with_the_known_ones(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not known here; there are s3://, gs://, az://"):
        checked_url(text)


@pytest.mark.parametrize("text", ["s3://KEY:hush@b/k", "https://me:hush@h/f", "https://hush@h/f", "gs://hush@b/k"])
def test_a_user_or_password_is_refused_and_not_quoted(text: str) -> None:
    with pytest.raises(ValueError, match="with a user or a password in it is refused") as refused:
        checked_url(text)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("text", ["s3://b", "s3://b/", "s3:///k", "https://h", "https://h/?x=1", "hf://datasets"])
def test_what_names_no_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="names no object; write"):
        checked_url(text)


@pytest.mark.parametrize("text", ["s3://b/a\nb", "s3://b/\x1b[2J", "s3://b c/k"])
def test_what_cannot_be_read_again_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="this is no URL of an object"):
        checked_url(text)


@pytest.mark.parametrize("text", ["https://h/f", "hf://datasets/a/b/c"])
def test_what_can_be_read_only_is_not_written(text: str) -> None:
    assert checked_url("az://c/k", is_written=True) == "az://c/k"
    with pytest.raises(ValueError, match=":// is for reading; name a file, or s3://"):
        checked_url(text, is_written=True)


def test_the_query_of_a_web_address_is_shown_nowhere() -> None:
    url = "https://h/a/rows%20of.jsonl.gz?X-Amz-Credential=c&X-Amz-Signature=hush"
    assert shown_url(url) == "https://h/a/rows%20of.jsonl.gz?..."
    assert object_name(url) == "rows of.jsonl.gz"
    assert "hush" not in file_name_for(url)


def test_a_key_may_have_any_characters() -> None:
    assert shown_url("s3://b/what?.jsonl") == "s3://b/what?.jsonl"
    assert object_name("s3://b/a/what?.jsonl") == "what?.jsonl"
    assert object_name("s3://b/a/folder/") == "folder"
    assert not is_web_url("s3://b/k")


def test_each_object_has_a_file_name_of_its_own() -> None:
    assert file_name_for("s3://b/2026-11-28/out.jsonl") == "b-2026-11-28-out.jsonl"
    assert file_name_for("s3://b/2026-11-29/out.jsonl") != file_name_for("s3://b/2026-11-28/out.jsonl")
