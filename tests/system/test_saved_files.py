"""Outputs that become files, by real processes: killed at any moment, written later, from a program that paints."""

from pathlib import Path

import pytest

from tests.system.processes import FAST, ROOT, Desk, looks

pytestmark = pytest.mark.system

JOBS = 300
PNG = b"\x89PNG\r\n\x1a\n"
PICTURE = ("--endpoint", f"local:{ROOT / 'examples' / 'handlers.py'}:picture")
SAVE = ("--save", "output.image=out/{custom_id}.png")


def files(desk: Desk) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (desk.folder / "out").iterdir()}


@pytest.mark.slow
def test_killed_again_and_again_each_result_has_its_one_file(desk: Desk) -> None:
    desk.inputs(JOBS, prompt="a lighthouse")
    command = ("run", "prompts.jsonl", *PICTURE, *SAVE, "--output", "results.jsonl", *FAST)
    out = desk.folder / "out"
    for files_at_least in (1, 60, 150):
        running = desk.start(*command)
        for _ in looks():
            if out.exists() and len(list(out.iterdir())) >= files_at_least:
                break
        running.kill()
    ended = desk.call(*command)
    assert ended.exit_code == 0, ended
    rows = desk.rows()
    saved = {Path(row["output"]["image"]["file"]).name: row["output"]["image"]["bytes"] for row in rows}
    there = {name: content for name, content in files(desk).items() if not name.endswith(".tmp")}
    assert {name: len(content) for name, content in there.items()} == saved
    assert set(saved) == {f"row-{n}.png" for n in range(JOBS)}
    assert all(content.startswith(PNG) for content in there.values())
    assert len(files(desk)) - len(there) <= 3 * 4, "a kill leaves what was being written, and no more"
    verified = desk.call("verify", "--output", "results.jsonl")
    assert (verified.exit_code, f"{JOBS} saved files" in verified.stdout) == (0, True), verified
    assert (desk.folder / "orchestrator.db").stat().st_size < 2_000_000


@pytest.mark.slow
def test_files_are_made_later_of_what_the_ledger_has_and_verify_knows_them(desk: Desk) -> None:
    desk.inputs(3, prompt="a lighthouse")
    assert desk.call("run", "prompts.jsonl", *PICTURE, "--output", "results.jsonl", *FAST).exit_code == 0
    assert all(isinstance(row["output"]["image"], str) for row in desk.rows())
    for made, command in ((3, ("results",)), (0, ("runs", "export"))):
        exported = desk.call(*command, "--output", "later.jsonl", *SAVE)
        assert (exported.exit_code, f"files made of {made} results" in exported.stderr) == (0, True), exported
    refused = desk.call("results", "--follow", *SAVE)
    assert (refused.exit_code, "leave out one" in refused.stderr) == (2, True), refused
    sizes = [row["output"]["image"]["bytes"] for row in desk.rows("later.jsonl")]
    assert sizes == list(map(len, files(desk).values()))
    assert desk.call("verify", "--output", "later.jsonl").exit_code == 0
    (desk.folder / "out" / "row-1.png").write_bytes(b"")
    spoilt = desk.call("verify")
    assert spoilt.exit_code == 1
    assert "row-1.png of row-1 has 0 bytes" in spoilt.stdout


@pytest.mark.slow
def test_the_same_run_again_makes_files_of_the_results_that_it_has(desk: Desk) -> None:
    desk.inputs(3, prompt="a lighthouse")
    command = ("run", "prompts.jsonl", *PICTURE, "--output", "results.jsonl", *FAST)
    assert desk.call(*command).exit_code == 0
    ended = desk.call(*command, *SAVE)
    assert (ended.exit_code, "results without their files: 3; these are made first" in ended.stderr) == (0, True), ended
    assert {row["output"]["image"]["file"] for row in desk.rows()} == {
        str(desk.folder / "out" / name) for name in files(desk)
    }


@pytest.mark.slow
def test_a_run_is_not_done_while_the_disk_has_not_taken_its_files(desk: Desk) -> None:
    desk.inputs(1, prompt="a lighthouse")
    (desk.folder / "out").mkdir()
    (desk.folder / "out" / "row-0").symlink_to(desk.folder)
    save = ("--save", "output.image=out/{custom_id}/1.png")
    stopped = desk.call("run", "prompts.jsonl", *PICTURE, *save, "--output", "results.jsonl", *FAST)
    assert stopped.exit_code == 3, stopped
    assert "row-0 in it is no folder, or a link to one, which is not followed" in stopped.stderr
    assert "1 result without files" in stopped.stderr
    (desk.folder / "out" / "row-0").unlink()
    assert desk.call("resume", "prompts").exit_code == 0
    [row] = desk.rows()
    assert row["output"]["image"]["file"] == str(desk.folder / "out" / "row-0" / "1.png")


def test_what_cannot_be_a_file_is_refused_before_anything_is_sent(desk: Desk) -> None:
    desk.inputs(1, prompt="a lighthouse")
    (desk.folder / "taken").touch()
    for save, why in (
        ("output.image=out/image.png", "would be one file for all rows"),
        ("output.image=taken/{custom_id}.png", "taken is no folder"),
        ("output.image=https://example.org/{custom_id}.png", "is for reading"),
        ("image=out/{custom_id}.png", "names no member of outputs"),
    ):
        refused = desk.call("run", "prompts.jsonl", *PICTURE, "--save", save)
        assert (refused.exit_code, why in refused.stderr) == (2, True), refused
    assert not (desk.folder / "out").exists()
