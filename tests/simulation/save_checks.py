"""What must be true of files that are made of outputs: each is there, whole, and nothing else is."""

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from orchestrator.core.jobs.lifecycle import State
from orchestrator.settings.words_and_defaults import OnUnsaved
from tests.simulation.books import Books, EventRow
from tests.simulation.compact import compact
from tests.simulation.facts import Facts
from tests.simulation.looked_up import number_of
from tests.simulation.mistaken import mistaken_in
from tests.simulation.save_plan import Given
from tests.simulation.saves import FOLDER, MEMBER, strange_file

SHOWN = 24
"""So much of a content is looked for."""


def _members(facts: Facts, books: Books) -> Iterator[tuple[str, Any]]:
    """What each row that has succeeded has in the place of its file."""
    names = {job.id: job.custom_id for job in books.jobs if job.state == State.SUCCEEDED}
    for row in books.outcomes:
        if row.job in names and row.output is not None and facts.plan.saves is not None:
            yield names[row.job], json.loads(row.output).get(MEMBER)


def each_file_is_there_and_whole(facts: Facts, books: Books) -> Iterator[str]:
    """Of each result: what is in it came from its output, and its size and SHA-256 are what its row says; and what can
    be a file is one, once all is well.
    """
    outputs = facts.outputs
    if outputs is None or not facts.finished:
        return
    mistaken = mistaken_in(facts, books)
    for name, member in _members(facts, books):
        if name in mistaken:
            continue
        wanted = outputs.file(number_of(name))
        if not isinstance(member, dict) or "file" not in member:
            if wanted is not None:
                yield f"{name} has no file: {str(member)[:100]}"
            elif not isinstance(member, dict):
                yield f"{name} does not say why it has no file: {str(member)[:100]}"
            continue
        path = Path(member["file"])
        if not path.is_file() or path.parent != facts.folder / FOLDER:
            yield f"{name} has the file {path}, which is not there"
            continue
        found = path.read_bytes()
        if found != wanted:
            yield f"{name} has {len(found)} bytes in {path.name} that are not of its output"
        if (member["bytes"], member["sha256"]) != (len(found), hashlib.sha256(found).hexdigest()):
            yield f"{name} says of {path.name} what it is not: {member}"


def nothing_else_lies_where_files_are_saved(facts: Facts, books: Books) -> Iterator[str]:
    """But for what was there before, and for what was made of a result that counts no more; what a process leaves that
    is killed is gone once the next has begun; and nothing lies outside.
    """
    saves = facts.plan.saves
    if saves is None or not facts.finished:
        return
    out = facts.folder / FOLDER
    there = {path.name: path for path in out.iterdir()} if out.is_dir() else {}
    told = {Path(member["file"]).name for _, member in _members(facts, books) if "file" in member}
    strange = {f"job-{n}.bin": strange_file(facts.plan, n) for n in saves.strangers}
    for name, content in strange.items():
        if name not in there or there[name].read_bytes() != content:
            yield f"{name}, which is somebody else's, is not what it was"
    lost = {job.custom_id for job in books.jobs if job.state != State.SUCCEEDED}
    for name in there.keys() - told - strange.keys():
        if _row_of(name) not in lost:
            yield f"{name} lies where files are saved, and no row tells of it"
    ours = {facts.ledger.name, FOLDER, *(p.name for run in facts.runs for p in (run.source, run.output, run.errors))}
    for path in facts.folder.iterdir():
        if path.name not in ours and not path.name.startswith(f"{facts.ledger.name}"):
            yield f"{path.name} lies outside of the folder"


def _row_of(name: str) -> str:
    """Of which row a file is, or was coming."""
    return name.removeprefix(".").partition(".bin")[0].removesuffix("-2")


def the_ledger_has_no_content_of_files(facts: Facts, books: Books) -> Iterator[str]:
    """In no row of any table, but of what has come and is not worked off yet."""
    outputs = facts.outputs
    if outputs is None or not facts.finished:
        return
    contents = {
        name: json.loads(outputs.output(number_of(name)))[MEMBER].encode()[: SHOWN + 40][-SHOWN:]
        for name, member in _members(facts, books)
        if isinstance(member, dict)
        and "file" in member
        and outputs.given(number_of(name)) in (Given.BASE64, Given.DATA_URL)
    }
    contents = {name: part for name, part in contents.items() if len(part) == SHOWN}
    values = b"\n".join(_values(facts.ledger))
    for name, part in contents.items():
        if part in values:
            yield f"the ledger holds the content of {name}'s file"


def _values(ledger: Path) -> Iterator[bytes]:
    with closing(sqlite3.connect(ledger)) as db:
        db.text_factory = bytes
        tables = [str(name, "ascii") for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in {*tables} - {"notices"}:
            for row in db.execute(f'SELECT * FROM "{table}"'):
                for value in row:
                    if isinstance(value, bytes):
                        yield value
                        with suppress(zlib.error):
                            yield zlib.decompress(value)


def is_never_a_file(facts: Facts, books: Books, row: EventRow) -> bool:
    """Whether an event may be that no file could be made of a result, which is none then."""
    saves, outputs = facts.plan.saves, facts.outputs
    if saves is None or outputs is None or saves.on_unsaved is OnUnsaved.KEEP or row.trouble != "invalid_output":
        return False
    return outputs.is_never_a_file(number_of(books.name_of(row)))


def as_it_came(facts: Facts, custom_id: str, output: bytes | None) -> bytes | None:
    """An output as its worker gave it, of what is kept of it."""
    if facts.outputs is None or output is None:
        return output
    kept, came = json.loads(output), facts.outputs.output(number_of(custom_id))
    member = kept.get(MEMBER)
    if isinstance(member, dict):
        kept[MEMBER] = json.loads(came)[MEMBER] if "file" in member else member.get("value")
    return compact(kept)


OF_SAVES = (
    each_file_is_there_and_whole,
    nothing_else_lies_where_files_are_saved,
    the_ledger_has_no_content_of_files,
)
