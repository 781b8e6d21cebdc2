from pathlib import Path

import pytest

from orchestrator.errors import UsageError
from orchestrator.settings.addresses.ledger_address import (
    LedgerHost,
    LedgerUrl,
    file_of,
    folder_of,
    may_exist,
    parse_ledger_url,
)
from orchestrator.settings.parsers.name_parsers import parse_ledger


@pytest.mark.parametrize("text", ["orchestrator.db", "/var/lib/l.db", "postgresql", "a:b", "c:\\l.db", "s3:/x"])
def test_what_has_no_scheme_is_a_path(text: str) -> None:
    assert parse_ledger(text) == Path(text)
    assert file_of(Path(text)) == Path(text)
    assert folder_of(Path(text)) == Path(text).parent
    assert not may_exist(Path(text))


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("postgresql://h/d", LedgerUrl(hosts=(LedgerHost("h"),), database="d")),
        ("postgres://me@h:6000/d", LedgerUrl(hosts=(LedgerHost("h", 6000),), database="d", user="me")),
        (
            "postgresql://me@a,b:6000/d?schema=night",
            LedgerUrl(hosts=(LedgerHost("a"), LedgerHost("b", 6000)), database="d", user="me", schema="night"),
        ),
        ("postgresql://[::1]:6000/d", LedgerUrl(hosts=(LedgerHost("::1", 6000),), database="d")),
        ("postgresql:///d?host=/run/postgresql", LedgerUrl(hosts=(LedgerHost("/run/postgresql"),), database="d")),
        ("postgresql://%2Frun%2Fpostgresql/d", LedgerUrl(hosts=(LedgerHost("/run/postgresql"),), database="d")),
        (
            "postgresql://a%40b@h/d%2Fe?sslmode=verify-ca&sslrootcert=/etc/ca.pem",
            LedgerUrl(
                hosts=(LedgerHost("h"),),
                database="d/e",
                user="a@b",
                tls={"sslmode": "verify-ca", "sslrootcert": "/etc/ca.pem"},
            ),
        ),
    ],
)
def test_a_url_says_where_and_as_whom_and_is_read_again_as_it_is_printed(text: str, means: LedgerUrl) -> None:
    assert parse_ledger_url(text) == means
    assert parse_ledger_url(str(means)) == means == means.absolute()
    assert parse_ledger(text) == means


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mysql://h/d", "mysql:// is not known here; a ledger is a file"),
        ("sqlite:///l.db", "by its path"),
        ("postgresql://me:hunter2@h/d", "PGPASSWORD"),
        ("postgresql://me@h/d?password=hunter2", "PGPASSWORD"),
        ("postgresql://h", "names no database"),
        ("postgresql://h/", "names no database"),
        ("postgresql://h/d/e", "names no database"),
        ("postgresql://h/d\x00", "names no database"),
        ("postgresql:///d", "is no host"),
        ("postgresql://a b/d", "is no host"),
        ("postgresql://h:0/d", "is no host"),
        ("postgresql://h:70000/d", "is no host"),
        ("postgresql://h:x/d", "is no host"),
        ("postgresql://a,,b/d", "is no host"),
        ("postgresql://h/d?schema=1x", "no name of a schema"),
        ("postgresql://h/d?schema=" + "x" * 64, "no name of a schema"),
        ("postgresql://h/d?sslmode=on", "sslmode is one of disable"),
        ("postgresql://h/d?options=-c", '"options" is not known'),
        ("postgresql://h/d?schema", "behind"),
    ],
)
def test_what_names_no_ledger_is_refused_and_no_password_is_quoted(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        parse_ledger(text)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("postgresql://db.example/d", "verify-full"),
        ("postgresql://localhost,db.example/d", "verify-full"),
        ("postgresql://localhost/d", "prefer"),
        ("postgresql://[::1]/d", "prefer"),
        ("postgresql:///d?host=/run/postgresql", "prefer"),
        ("postgresql://db.example/d?sslmode=require", "require"),
    ],
)
def test_a_server_on_a_network_proves_who_it_is_unless_it_is_said_otherwise(text: str, mode: str) -> None:
    assert parse_ledger_url(text).tls_mode == mode


def test_one_on_a_server_has_a_name_and_no_file() -> None:
    url = parse_ledger_url("postgresql://h/d?schema=night")
    assert (url.name, parse_ledger_url("postgresql://h/d").name) == ("d.night", "d")
    assert folder_of(url) == Path()
    assert may_exist(url)
    with pytest.raises(UsageError, match=r"postgresql://h/d\?schema=night: a ledger on a server"):
        file_of(url)
