"""Who calls the emulated service, and what the account may still do, as a TOML file and `--quota` texts say it.

    capacity = 2
    balance = false

    [quotas]
    minute = 5

    [caller.reader]
    key = "the-key-of-a-reader"
    scopes = ["pods:read", "serverless:read"]

Whatever is wrong is said with its file, its table and its key; no key of a caller is repeated.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from orchestrator.emulator.account.templates import TEMPLATE_RELEASE_S
from orchestrator.emulator.contract.callers import QUOTAS, SCOPES, Caller, Quota
from orchestrator.errors import UsageError

T = TypeVar("T")

_PLACE = re.compile(r" - at `\$\.?([^`]*)`$")

_WORDS = (
    ("Object contains unknown field", "there is no key"),
    ("Object missing required field", "there has to be a key"),
)

_Whole = Annotated[int, msgspec.Meta(ge=0)]
_AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]
_Seconds = Annotated[float, msgspec.Meta(ge=0)]
_Text = Annotated[str, msgspec.Meta(min_length=1)]


class Accounts(msgspec.Struct, frozen=True, kw_only=True):
    """Whom each key stands for, how often a user may ask, and what is left."""

    callers: Mapping[str, Caller] | None = None
    """By key; None has every key that is taken be one user's, with all permissions."""
    quotas: Mapping[str, Quota] = QUOTAS
    capacity: int | None = None
    balance: bool = True
    template_release_s: float = TEMPLATE_RELEASE_S


class _Quotas(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many requests each window takes; one that is not named keeps its own number."""

    minute: _AtLeastOne = QUOTAS["minute"].requests
    hour: _AtLeastOne = QUOTAS["hour"].requests
    day: _AtLeastOne = QUOTAS["day"].requests


class _Caller(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table `[caller.NAME]`."""

    key: _Text
    user: _Text | None = None
    """None: the name of the table."""
    scopes: tuple[str, ...] = tuple(sorted(SCOPES))
    session: bool = False
    teams: tuple[_Text, ...] = ()
    team: _Text | None = None
    exempt: bool = False


class _File(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """What may stand in the file outside of its tables."""

    capacity: _Whole | None = None
    balance: bool = True
    template_release: _Seconds = TEMPLATE_RELEASE_S


def read_accounts(path: Path | None, quotas: Sequence[str] = ()) -> Accounts:
    """The accounts of a TOML file, and over its quotas those of `WINDOW=N` texts. Raises UsageError."""
    values = {} if path is None else _loaded(path)
    told = str(path)
    tables = {name: _table(values.pop(name, {}), name, told) for name in ("quotas", "caller")}
    rest = _read(values, _File, told, "")
    return Accounts(
        callers=_callers(tables["caller"], told) or None,
        quotas=_quotas(_read(tables["quotas"], _Quotas, told, "quotas"), quotas),
        capacity=rest.capacity,
        balance=rest.balance,
        template_release_s=rest.template_release,
    )


def _loaded(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"accounts file {path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise UsageError(f"accounts file {path}: this is not TOML: {error}") from None


def _table(value: object, name: str, told: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        example = (
            "[quotas] and, below it, minute = 5" if name == "quotas" else '[caller.ann] and, below it, key = "..."'
        )
        raise UsageError(f"accounts file {told}: {name} must be a table, as in {example}")
    return value


def _callers(tables: Mapping[str, Any], told: str) -> dict[str, Caller]:
    """By key. Two callers with one key would be one."""
    callers: dict[str, Caller] = {}
    for name, values in tables.items():
        found = _read(_table(values, "caller", told), _Caller, told, f"caller.{name}")
        if unknown := sorted(set(found.scopes) - SCOPES):
            raise UsageError(
                f"accounts file {told}, [caller.{name}]: scopes: there is no {unknown[0]!r};"
                f" there are {', '.join(sorted(SCOPES))}"
            )
        if found.key in callers:
            raise UsageError(f"accounts file {told}, [caller.{name}]: key: another caller has it, too")
        callers[found.key] = Caller(
            user=found.user or name,
            scopes=frozenset(found.scopes),
            session=found.session,
            teams=frozenset(found.teams),
            team=found.team,
            exempt=found.exempt,
        )
    return callers


def _read(values: Mapping[str, Any], kind: type[T], told: str, table: str) -> T:
    """The table as `kind`; keys may be written with underscores where the kind has dashes."""
    try:
        return msgspec.convert({key.replace("_", "-"): value for key, value in values.items()}, kind)
    except msgspec.ValidationError as error:
        place = _PLACE.search(str(error))
        why = _PLACE.sub("", str(error)).replace("`", "'").replace(" | null", "").replace("Expected", "must be")
        for library, ours in _WORDS:
            why = why.replace(library, ours)
        names = ", ".join(field.encode_name for field in msgspec.structs.fields(kind))  # type: ignore[arg-type]
        where = f"accounts file {told}" + (f", [{table}]" if table else "")
        raise UsageError(f"{where}: {place[1]} {why}" if place else f"{where}: {why}; the keys are {names}") from None


def _quotas(in_file: _Quotas, given: Sequence[str]) -> dict[str, Quota]:
    requests: dict[str, int] = msgspec.structs.asdict(in_file)
    for text in given:
        window, _, number = text.partition("=")
        if window not in requests or not number.isdecimal() or int(number) < 1:
            raise UsageError(
                f"quota {text!r}: write it as WINDOW=N, with a window of {', '.join(requests)} and N from 1"
            )
        requests[window] = int(number)
    return {name: Quota(requests=number, window_s=QUOTAS[name].window_s) for name, number in requests.items()}
