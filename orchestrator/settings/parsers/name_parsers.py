"""How names are written by those who type: endpoints, runs, files, variables. All raise `ValueError`."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from orchestrator.core.service.row_variables import parse_allowed
from orchestrator.core.service.s3_config import REFERENCE
from orchestrator.core.service.url_endpoints import PODS, is_pods, is_url, looks_like_url, url_endpoint
from orchestrator.core.text.name_match import looks_like_an_id
from orchestrator.core.text.object_urls import checked_url, is_object_url
from orchestrator.settings.addresses.ledger_address import LedgerAddress, parse_ledger_url
from orchestrator.settings.words_and_defaults import LOCAL, POOL, STANDARD_INPUT
from orchestrator.stores.object_url import Location, ObjectUrl

NAME_CHARACTERS_MAX: Final = 200
STANDARD_OUTPUT: Final = Path("/dev/stdout")
_ENDPOINT: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")


def parse_endpoint(text: str) -> str:
    """The id of an endpoint, or a function of the user's; or those of a pool, or its name. Raises `ValueError`, as all
    of these do.
    """
    if text.startswith(POOL):
        if not _ENDPOINT.fullmatch(text.removeprefix(POOL)):
            raise ValueError(f'"{text:.80}" names no pool; write {POOL}NAME, of letters, digits, - and _')
        return text
    members = members_in(text)
    for n, member in enumerate(members):
        if _parse_single(member) in members[:n]:
            raise ValueError(f"{member} is named twice; a pool has each of its endpoints once")
    return _parse_single(text) if len(members) == 1 else text


def members_in(text: str) -> tuple[str, ...]:
    """The endpoints that stand in `text`, with commas between them; only one where it is no list of endpoints."""
    parts = tuple(part.strip() for part in text.split(","))
    try:
        return tuple(map(_parse_single, parts)) if len(parts) > 1 else (text,)
    except ValueError:
        if text.startswith(LOCAL) and not any(part.startswith(LOCAL) for part in parts[1:]):
            return (text,)  # a file's name may have commas
        raise


def home_order(endpoint: str) -> tuple[bool, bool]:
    """By which of a pool's endpoints its run is, the least of all: at the service if it can, else at a URL."""
    return endpoint.startswith(LOCAL), is_url(endpoint)


def _parse_single(text: str) -> str:
    if text.startswith(LOCAL):
        file, _, function = text.removeprefix(LOCAL).rpartition(":")
        if not file or not function.isidentifier():
            raise ValueError(f'"{text}" names no function; write local:FILE.py:FUNCTION')
    elif is_pods(text):
        parse_pod_template(text.removeprefix(PODS))
    elif looks_like_url(text):
        return url_endpoint(text)
    elif not _ENDPOINT.fullmatch(text):
        raise ValueError(
            f'"{text:.80}" is no endpoint id; write the id alone, or local:FILE.py:FUNCTION, or the URL of a server'
        )
    return text


def parse_pod_template(text: str) -> str:
    """The name of a kind of pods, as the configuration file has it."""
    if not _ENDPOINT.fullmatch(text):
        raise ValueError(f'"{text:.80}" names no pod template; its name has letters, digits, - and _')
    return text


def is_endpoint_name(given: str) -> bool:
    """Whether `given` is not taken for an id as it stands."""
    return not (given.startswith((LOCAL, POOL, PODS)) or "/" in given or looks_like_an_id(given))


def parse_run_name(text: str) -> str:
    """The name of a run. Raises `ValueError`."""
    if not text.strip() or not text.isprintable() or len(text) > NAME_CHARACTERS_MAX:
        raise ValueError(f"a run's name has 1 to {NAME_CHARACTERS_MAX} printable characters")
    return text


def parse_ledger(text: str) -> LedgerAddress:
    """A ledger on a server, by its URL, or in a file, by its path. Raises `ValueError`."""
    return parse_ledger_url(text) if is_object_url(text) else parse_path(text)


def parse_path(text: str) -> Path:
    """A file's name, which may be that of a file to come."""
    if not text or "\0" in text:
        raise ValueError("this is no file name")
    return Path(text)


def parse_output_path(text: str) -> Location:
    """The same, or standard output, or an object of a store."""
    if is_object_url(text):
        return ObjectUrl(checked_url(text, is_written=True))
    return STANDARD_OUTPUT if text == STANDARD_INPUT else parse_path(text)


def parse_variable(text: str) -> str:
    """The name of a variable that holds a key, from `env:NAME`. What it is instead is not quoted: it may be a key."""
    named = REFERENCE.fullmatch(text)
    if named is None:
        raise ValueError("write env:NAME, where NAME is the variable that holds the key")
    return named[1]


def parse_allowed_variables(texts: Sequence[str]) -> tuple[str, ...]:
    """Names of variables, or how they begin; several may stand in one text, with commas between them."""
    return tuple(parse_allowed(each.strip()) for text in texts for each in text.split(","))


MACHINE_CHARS_MAX: Final = 24
_MACHINE: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MACHINE_CHARS_MAX - 1}}}")


def parse_machine(text: str) -> str:
    """What people call the machine of a process. Raises `ValueError`."""
    if not _MACHINE.fullmatch(text):
        raise ValueError(
            f'"{text:.40}" cannot be a name: write up to {MACHINE_CHARS_MAX} letters, digits, dots, dashes and'
            " underscores"
        )
    return text
