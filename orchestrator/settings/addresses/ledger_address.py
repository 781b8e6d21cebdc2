"""Where a ledger is: a file, by its path, or a schema of a PostgreSQL database, by its URL."""

import re
from pathlib import Path
from typing import Final, Self
from urllib.parse import parse_qsl, quote, unquote, urlencode

import msgspec

from orchestrator.errors import UsageError

SCHEMES: Final = ("postgresql", "postgres")
PORT: Final = 5432
SCHEMA: Final = "public"
SCHEMA_CHARS_MAX: Final = 63

TLS_MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
OPTIONS: Final = ("schema", "host", "sslmode", "sslrootcert", "sslcert", "sslkey")
EXAMPLE: Final = "postgresql://USER@HOST/DATABASE"

_SCHEMA: Final = re.compile(rf"[A-Za-z_][A-Za-z0-9_]{{0,{SCHEMA_CHARS_MAX - 1}}}")
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]\s/]+)(?::([0-9]{1,5}))?")
_PORT_MAX: Final = 65_535
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class LedgerHost(msgspec.Struct, frozen=True):
    """One server of a database; a name that begins with `/` is the folder of its socket."""

    name: str
    port: int = PORT

    @property
    def is_on_this_machine(self) -> bool:
        """Whether nobody on a network can listen to what is said to it."""
        return self.name.startswith("/") or self.name in _LOOPBACK

    def __str__(self) -> str:
        name = f"[{self.name}]" if ":" in self.name else quote(self.name, safe="")
        return name if self.port == PORT else f"{name}:{self.port}"


class LedgerUrl(msgspec.Struct, frozen=True, kw_only=True):
    """A ledger on a server, without what gives access to it. Printed it is a URL, which `parse_ledger_url` reads."""

    hosts: tuple[LedgerHost, ...]
    """Those of one database that are tried in this order; the one that can be written is it."""

    database: str
    user: str = ""
    """Empty: as the environment (`PGUSER`) or the system says."""

    schema: str = SCHEMA
    tls: dict[str, str] = {}
    """What was given of `sslmode` and its files."""

    @property
    def tls_mode(self) -> str:
        """How the server has to prove who it is: as it was given, or else by certificate and name, unless nobody can
        listen on the way to it.
        """
        if (given := self.tls.get("sslmode")) is not None:
            return given
        return "prefer" if all(host.is_on_this_machine for host in self.hosts) else "verify-full"

    @property
    def name(self) -> str:
        """What it is called among others."""
        return self.database if self.schema == SCHEMA else f"{self.database}.{self.schema}"

    def absolute(self) -> Self:
        """Itself: it is where it is, whatever the folder."""
        return self

    def __str__(self) -> str:
        user = f"{quote(self.user, safe='')}@" if self.user else ""
        hosts, folder = ",".join(map(str, self.hosts)), self.hosts[0]
        options = {**({"schema": self.schema} if self.schema != SCHEMA else {}), **self.tls}
        if self.hosts == (LedgerHost(folder.name),) and folder.name.startswith("/"):
            hosts, options = "", {"host": folder.name, **options}
        return (
            f"postgresql://{user}{hosts}/{quote(self.database, safe='')}"
            f"{'?' if options else ''}{urlencode(options, safe='/')}"
        )


LedgerAddress = Path | LedgerUrl


def file_of(ledger: LedgerAddress) -> Path:
    """The file of a ledger that has to be one. Raises `UsageError`."""
    if isinstance(ledger, LedgerUrl):
        raise UsageError(f"{ledger}: a ledger on a server cannot be used here; name a file with <setting ledger>")
    return ledger


def may_exist(ledger: LedgerAddress) -> bool:
    """Whether there is a file; of one on a server only that tells."""
    return isinstance(ledger, LedgerUrl) or ledger.exists()


def folder_of(ledger: LedgerAddress) -> Path:
    """The folder of its file; of one on a server that in which this process works."""
    return ledger.parent if isinstance(ledger, Path) else Path()


def parse_ledger_url(text: str) -> LedgerUrl:
    """The ledger at the URL `text`. Raises `ValueError`, which quotes nothing that may be a secret."""
    scheme, _, rest = text.partition("://")
    if scheme.lower() not in SCHEMES:
        raise ValueError(f"{scheme:.80}:// is not known here; a ledger is a file, by its path, or {EXAMPLE}")
    rest, _, query = rest.partition("?")
    where, _, database = rest.partition("/")
    user, _, hosts = where.rpartition("@")
    options = _options(query)
    if ":" in user or "password" in options:
        raise ValueError(
            "a URL with a password in it is refused: others could read it; the password comes from the variable"
            " PGPASSWORD, or from the file that PGPASSFILE names"
        )
    unknown = [each for each in options if each not in OPTIONS]
    if unknown:
        raise ValueError(f'"{unknown[0]:.80}" is not known in the URL of a ledger; there are {", ".join(OPTIONS)}')
    if not text.isprintable() or not database or "/" in database:
        raise ValueError(f"this URL names no database; write {EXAMPLE}")
    folder, schema = options.pop("host", ""), options.pop("schema", SCHEMA)
    if not _SCHEMA.fullmatch(schema):
        raise ValueError(f'"{schema:.80}" is no name of a schema: up to {SCHEMA_CHARS_MAX} letters, digits and _')
    if options.get("sslmode", TLS_MODES[0]) not in TLS_MODES:
        raise ValueError(f'sslmode is one of {", ".join(TLS_MODES)}, and not "{options["sslmode"]:.80}"')
    named = [_host(each) for each in (hosts or folder).split(",")]
    return LedgerUrl(hosts=tuple(named), database=unquote(database), user=unquote(user), schema=schema, tls=options)


def _options(query: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    except ValueError:
        raise ValueError('behind "?" a URL has options, as in ?schema=batches') from None


def _host(text: str) -> LedgerHost:
    text = unquote(text)
    if text.startswith("/"):
        return LedgerHost(text)
    found = _HOST.fullmatch(text)
    if found is None or not 0 < int(found[2] or PORT) <= _PORT_MAX:
        raise ValueError(f'"{text:.80}" is no host; write {EXAMPLE}, or HOST:PORT, or ?host=/FOLDER for a socket')
    return LedgerHost(found[1].strip("[]"), int(found[2] or PORT))
