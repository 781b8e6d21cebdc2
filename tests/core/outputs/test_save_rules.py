"""Which member becomes which file, and that no id leads out of its folder."""

from pathlib import PurePosixPath

import pytest
from hypothesis import given

from orchestrator.core.outputs.save_rules import (
    NAME_BYTES_MAX,
    SaveRule,
    check_apart,
    file_parts,
    format_save,
    numbered,
    parse_save,
)
from tests.texts import texts


def rule(template: str, path: str = "image") -> SaveRule:
    return SaveRule(tuple(path.split(".")), template)


@pytest.mark.parametrize(
    ("text", "path", "folder", "parts"),
    [
        ("output.image=out/{custom_id}.png", ("image",), "out", ("a7.png",)),
        ("output=/data/{custom_id}", (), "/data", ("a7",)),
        ("output.a.0.b={custom_id}.bin", ("a", "0", "b"), ".", ("a7.bin",)),
        ("output.images.*=out/{custom_id}/{n}.png", ("images", "*"), "out", ("a7", "3.png")),
        ("output.image=/{custom_id}.png", ("image",), "/", ("a7.png",)),
        ("output.image= a{{b/x=y-{custom_id} ", ("image",), "a{b", ("x=y-a7",)),
    ],
)
def test_a_rule_is_written_as_a_member_and_a_file(
    text: str, path: tuple[str, ...], folder: str, parts: tuple[str, ...]
) -> None:
    found = parse_save(text)
    assert (found.path, found.folder, file_parts(found, "a7", 3)) == (path, folder, parts)
    assert parse_save(format_save(found)) == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("image=out/{custom_id}.png", "names no member of outputs"),
        ("output.image", "names no member of outputs"),
        ("output..image=out/{custom_id}.png", "names no member of outputs"),
        ("output.image=out/image.png", "would be one file for all rows"),
        ("output.image=out/{custom_id}-{n}.png", "write both, or neither"),
        ("output.images.*=out/{custom_id}.png", "write both, or neither"),
        ("output.a.*.b.*=out/{custom_id}-{n}.png", r"has \* twice"),
        ("output.image=out/{customid}.png", "did you mean custom_id"),
        ("output.image=out/{seed}/{custom_id}.png", "there are {custom_id} and {n}"),
        ("output.image=out/{custom_id.png", "a brace stands alone; write {{"),
        ("output.image=out/{custom_id}/../x", 'no part of a path is empty, "." or ".."'),
        ("output.image=out/{custom_id}/", "no part of a path is empty"),
        ("output.image=out/{custom_id}\0", "no file name"),
        (f"output.image=out/{'x' * 101}{{custom_id}}", "longer than 100 bytes"),
    ],
)
def test_what_is_no_rule_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_save(text)


def test_what_a_flow_is_to_fill_in_is_told() -> None:
    assert parse_save("output.image=out/{fire:%F}/{custom_id}.png").is_of_flow
    assert not parse_save("output.image=out/{custom_id}.png").is_of_flow


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ("output.a=out/{custom_id}", "output.b=out/{custom_id}", "would be one file"),
        ("output.a=out/{custom_id}", "output.a.b=out/{custom_id}.b", "output.a is in|output.a.b is in"),
        ("output.a.0=out/{custom_id}", "output.a.*=out/{custom_id}-{n}", "or the other way round"),
    ],
)
def test_two_rules_mean_two_members_and_two_files(first: str, second: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check_apart([parse_save(first), parse_save(second)])


def test_rules_that_are_apart_are_fine() -> None:
    check_apart([parse_save("output.a=out/{custom_id}"), parse_save("output.b=out/{custom_id}.b")])


@pytest.mark.parametrize(
    ("custom_id", "name"),
    [
        ("cats/a 1", "cats%2Fa 1.png"),
        ("..", "%2E%2E.png"),
        ("/etc/passwd", "%2Fetc%2Fpasswd.png"),
        ("-rf", "%2Drf.png"),
        ("~root", "%7Eroot.png"),
        ("a%2Fb", "a%252Fb.png"),
        ("a\0b\n", "a%00b%0A.png"),
        ("con", "%63on.png"),
        ("LPT1.x", "%4CPT1.x.png"),
        ("console", "console.png"),
        ("", "%.png"),
        ("Übung 猫", "Übung 猫.png"),
        ("a\u202egnp", "a%E2%80%AEgnp.png"),
    ],
)
def test_an_id_leads_nowhere(custom_id: str, name: str) -> None:
    assert file_parts(rule("out/{custom_id}.png"), custom_id) == (name,)


def test_an_id_that_is_too_long_is_cut_and_told_apart_by_its_checksum() -> None:
    [first], [second] = (file_parts(rule("out/x-{custom_id}.png"), "é" * 300 + end) for end in "ab")
    assert first != second
    assert max(len(name.encode()) for name in (first, second)) <= NAME_BYTES_MAX
    assert first.startswith("x-éé")
    assert first.endswith(".png")


@given(texts(max_size=300), texts(max_size=300))
def test_two_ids_have_two_names_that_are_single_parts_of_a_path(one: str, other: str) -> None:
    [first], [second] = (file_parts(rule("out/{custom_id}"), each) for each in (one, other))
    assert (first == second) is (one == other)
    for name in (first, second):
        assert PurePosixPath(name).parts == (name,)
        assert name not in (".", "..")
        assert name.isprintable() or not name.isascii()
        assert 0 < len(name.encode()) <= NAME_BYTES_MAX


def test_a_name_that_is_taken_gets_a_number_before_its_ending() -> None:
    assert numbered("a.png", 1) == "a.png"
    assert [numbered(name, 2) for name in ("a.png", "a", "a.tar.gz")] == ["a-2.png", "a-2", "a.tar-2.gz"]
