from pathlib import Path

import pytest

from orchestrator.settings.addresses.ledger_address import LedgerHost, LedgerUrl, parse_ledger


def the_url(text: str) -> LedgerUrl:
    found = parse_ledger(text)
    assert isinstance(found, LedgerUrl)
    return found


@pytest.mark.parametrize("text", ["orchestrator.db", "/var/lib/l.db", "postgresql", "a:b", "c:\\l.db", "s3:/x"])
def test_what_has_no_scheme_is_a_path(text: str) -> None:
    assert parse_ledger(text) == Path(text)


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
    assert parse_ledger(text) == means
    assert parse_ledger(str(means)) == means


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "a path is missing"),
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
    assert the_url(text).tls_mode == mode
