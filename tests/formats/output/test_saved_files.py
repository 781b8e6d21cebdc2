"""Files made of members of outputs: whole or not there, never in another one's place, never elsewhere."""

import errno
import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from orchestrator.core.outputs.saved_members import SavedFile
from orchestrator.formats.output.saved_files import NewFile, flaw_of, folder_fault


def written(folder: Path, *parts: str, content: bytes = b"content") -> SavedFile:
    with NewFile(str(folder), parts) as file:
        file.write(content[:3])
        file.write(content[3:])
        return file.commit()


def names(folder: Path) -> list[str]:
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*") if not each.is_dir())


def test_it_is_there_as_a_whole_with_its_folders_and_told_by_size_and_checksum(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "out"
    saved = written(folder, "a7", "1.png")
    assert saved == SavedFile(file=str(folder / "a7/1.png"), bytes=7, sha256=sha256(b"content").hexdigest())
    assert Path(saved.file).read_bytes() == b"content"
    assert names(tmp_path) == ["new/out/a7/1.png"]
    assert flaw_of(saved) is None


def test_until_it_is_committed_it_is_not_there_and_given_up_it_leaves_nothing(tmp_path: Path) -> None:
    with NewFile(str(tmp_path), ["a.png"]) as file:
        file.write(b"half")
        assert "a.png" not in names(tmp_path)
    assert names(tmp_path) == []


def test_the_same_again_is_the_same_file(tmp_path: Path) -> None:
    first = written(tmp_path, "a.png")
    before = Path(first.file).stat()
    assert written(tmp_path, "a.png") == first
    after = Path(first.file).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert names(tmp_path) == ["a.png"]


def test_what_stands_there_with_something_else_in_it_stays_and_the_file_gets_a_number(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"somebody's")
    (tmp_path / "a-2.png").mkdir()
    saved = [written(tmp_path, "a.png"), written(tmp_path, "a.png"), written(tmp_path, "a.png", content=b"another")]
    assert [Path(each.file).name for each in saved] == ["a-3.png", "a-3.png", "a-4.png"]
    assert (tmp_path / "a.png").read_bytes() == b"somebody's"


def test_one_of_the_same_size_is_told_apart_by_what_is_in_it(tmp_path: Path) -> None:
    written(tmp_path, "a.png", content=b"1234567")
    assert written(tmp_path, "a.png", content=b"7654321").file.endswith("a-2.png")


def test_two_at_once_by_one_name_do_not_meet(tmp_path: Path) -> None:
    with NewFile(str(tmp_path), ["a.png"]) as one, NewFile(str(tmp_path), ["a.png"]) as other:
        one.write(b"one")
        other.write(b"other")
        assert [Path(each.commit().file).name for each in (other, one)] == ["a.png", "a-2.png"]
    assert names(tmp_path) == ["a-2.png", "a.png"]


LEFT = ".a.png.orchestrator-1.tmp"
OTHER = ".a.png.orchestrator-2.tmp"


def test_what_a_crash_left_goes_with_the_next_file_of_that_name(tmp_path: Path) -> None:
    (tmp_path / LEFT).write_bytes(b"left")
    saved = written(tmp_path, "a.png")
    assert names(tmp_path) == ["a.png"]
    (tmp_path / LEFT).hardlink_to(saved.file)  # as a crash leaves it that comes just as the file has its name
    (tmp_path / OTHER).write_bytes(b"of the same that came twice at once")
    assert written(tmp_path, "a.png") == saved
    assert (names(tmp_path), Path(saved.file).read_bytes()) == (["a.png"], b"content")


def test_what_is_being_written_and_what_is_no_file_stay(tmp_path: Path) -> None:
    with NewFile(str(tmp_path), ["a.png"]) as first:
        first.write(b"first")
        assert (tmp_path / LEFT).exists()
        (tmp_path / OTHER).mkdir()
        assert written(tmp_path, "a.png").file == str(tmp_path / "a.png")
        assert first.commit().file == str(tmp_path / "a-2.png")
    assert names(tmp_path) == ["a-2.png", "a.png"]
    assert (tmp_path / OTHER).is_dir()


def test_a_link_that_leads_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.png").write_bytes(b"theirs")
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "a7").symlink_to(outside)
    (folder / "b.png").symlink_to(outside / "x.png")
    with pytest.raises(OSError, match="a7") as refused:
        written(folder, "a7", "1.png")
    assert refused.value.errno in (errno.ENOTDIR, errno.ELOOP)
    assert written(folder, "b.png").file == str(folder / "b-2.png")
    assert names(outside) == ["x.png"]
    assert (outside / "x.png").read_bytes() == b"theirs"


def test_a_folder_that_people_have_made_a_link_themselves_is_theirs_to_choose(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "disk")
    written(tmp_path / "out", "a.png")
    assert names(tmp_path / "disk") == ["a.png"]


@pytest.mark.parametrize(
    ("spoil", "flaw"),
    [
        (lambda path: path.unlink(), "is not there"),
        (lambda path: path.write_bytes(b"short"), "has 5 bytes, and had 7"),
        (lambda path: path.write_bytes(b"7654321"), "holds something else by now"),
        (lambda path: (path.unlink(), path.mkdir()), r"cannot be read \(Is a directory\)"),
    ],
)
def test_what_has_become_of_it_is_told(tmp_path: Path, spoil: Callable[[Path], object], flaw: str) -> None:
    saved = written(tmp_path, "a.png")
    spoil(Path(saved.file))
    assert re.match(flaw, flaw_of(saved) or "")


def test_a_folder_is_found_usable_before_it_is_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert folder_fault(str(tmp_path / "new" / "out")) is None
    assert folder_fault(str(tmp_path / "file" / "out")) == f"{tmp_path / 'file'} is no folder"
    assert not (tmp_path / "new").exists()
