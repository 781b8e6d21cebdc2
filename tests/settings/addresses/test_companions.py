import os
from pathlib import Path

import pytest

from orchestrator.settings.addresses.companions import Companion, companion_of, file_identity, real_file, state_folder
from orchestrator.settings.addresses.ledger_address import parse_ledger_url

URL = parse_ledger_url("postgresql://me@db.example,[::1]:6000/d%2Fe?schema=night")


def test_all_links_to_a_ledger_share_what_belongs_to_it(tmp_path: Path) -> None:
    real, link = tmp_path / "there" / "l.db", tmp_path / "link.db"
    link.symlink_to(real)
    assert real_file(link) == real_file(real) == real
    assert companion_of(link, Companion.WEBHOOK_KEY) == companion_of(real, ".key") == tmp_path / "there" / "l.db.key"


def test_a_link_in_a_circle_is_told_by_who_opens_it(tmp_path: Path) -> None:
    link = tmp_path / "l.db"
    link.symlink_to(link)
    assert companion_of(link, ".key").name == "l.db.key"
    assert file_identity(link) is None


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"STATE_DIRECTORY": "/var/lib/a:/var/lib/b"}, Path("/var/lib/a")),
        ({"XDG_STATE_HOME": "/state"}, Path("/state/orchestrator")),
        ({"XDG_STATE_HOME": ""}, Path.home() / ".local" / "state" / "orchestrator"),
    ],
)
def test_programs_keep_their_state_where_the_system_says(environ: dict[str, str], folder: Path) -> None:
    assert state_folder(environ) == folder


def test_what_belongs_to_one_on_a_server_is_there_by_its_name() -> None:
    there = state_folder(os.environ)
    assert companion_of(URL, Companion.SENT_MARKS) == there / "db.example-1-6000-d-e.night.sent"


def test_another_file_at_the_same_path_is_another_ledger(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    assert file_identity(path) is None
    path.touch()
    first = file_identity(path)
    assert first == file_identity(path) is not None
    other = tmp_path / "other"
    other.touch()
    other.replace(path)
    assert file_identity(path) != first
    assert file_identity(URL) == URL
