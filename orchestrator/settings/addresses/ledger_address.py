"""Where a ledger is: a file, by its path, or a schema of a PostgreSQL database, by its URL."""

import re
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

import msgspec

SCHEMES: Final = ("postgresql", "postgres")
PORT: Final = 5432
SCHEMA: Final = "public"
SCHEMA_CHARS_MAX: Final = 63

TLS_MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
OPTIONS: Final = ("schema", "host", "sslmode", "sslrootcert", "sslcert", "sslkey")
EXAMPLE: Final = "postgresql://USER@HOST/DATABASE"

_BEGINNING: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
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
    """A ledger on a server, without what gives access to it. Printed, it is a URL that `parse_ledger` reads again."""

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

    def __str__(self) -> str:
        user = f"{quote(self.user, safe='')}@" if self.user else ""
        options = {**({"schema": self.schema} if self.schema != SCHEMA else {}), **self.tls}
        return (
            f"postgresql://{user}{','.join(map(str, self.hosts))}/{quote(self.database, safe='')}"
            f"{'?' if options else ''}{urlencode(options, safe='/')}"
        )


LedgerAddress = Path | LedgerUrl


def parse_ledger(text: str) -> LedgerAddress:
    """What `text` names: a path, or a URL. Raises `ValueError`, which quotes nothing that may be a secret."""
    if (scheme := _BEGINNING.match(text)) is None:
        if not text:
            raise ValueError("a path is missing")
        return Path(text)
    if scheme[1].lower() not in SCHEMES:
        raise ValueError(f"{scheme[1]}:// is not known here; a ledger is a file, by its path, or {EXAMPLE}")
    rest, _, query = text[scheme.end() :].partition("?")
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
