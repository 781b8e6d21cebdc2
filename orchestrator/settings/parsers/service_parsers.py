"""How it is written how the service is reached: URLs, rate limits, keys, and where a message goes."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Final, get_args
from urllib.parse import urlsplit

from orchestrator.core.lanes.openai import ROUTE
from orchestrator.core.limits.limit_text import format_limit, parse_limit
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation, Pacing
from orchestrator.core.pipelines.receivers import is_receiver, parse_receiver
from orchestrator.core.service.addresses import interface_url
from orchestrator.core.service.s3_config import REFERENCE
from orchestrator.settings.value_types import ValueType, parsed
from orchestrator.settings.words_and_defaults import KeyPlace

_KEY_FORM: Final = "write URL=env:NAME, where NAME is the variable that holds the key"


def parse_limits(texts: Sequence[str]) -> Mapping[Operation, Limit]:
    """The limits to keep: the contract's, where nothing else was chosen."""
    chosen = dict(map(parse_limit, texts))
    if len(chosen) < len(texts):
        raise ValueError("an operation is named twice; give each one limit")
    return {**CONTRACT_LIMITS, **chosen}


def format_limits(kept: Mapping[Operation, Limit]) -> Sequence[str]:
    """One at least, though it be the contract's: it says that what stands in the file does not count."""
    chosen = [each for each in CONTRACT_LIMITS if kept.get(each, CONTRACT_LIMITS[each]) != CONTRACT_LIMITS[each]]
    return [format_limit(each, kept[each]) for each in chosen or list(kept)[:1]]


def parse_service_keys(texts: Sequence[str]) -> Mapping[str, str]:
    """The variables that hold the keys of further services; a key itself is not for command lines and files."""
    found: dict[str, str] = {}
    for number, each in enumerate(texts, start=1):
        url, _, variable = each.rpartition("=")
        try:
            address = interface_url(url, added="/v2").rstrip("/")
        except ValueError as error:
            raise ValueError(f"number {number}: {error if url else _KEY_FORM}") from None  # it may be a key itself
        if not REFERENCE.fullmatch(variable):
            raise ValueError(f"number {number}, for {address}: {_KEY_FORM}")
        found[address] = variable
    return found


def format_service_keys(held: Mapping[str, str]) -> list[str]:
    """`held` as they are written; what a program gave is a key itself, which is not for messages either."""
    return [f"{url}={key}" for url, key in held.items() if REFERENCE.fullmatch(key)]


def parse_request_path(text: str) -> str:
    """The path of a server's that takes requests; "" for its URL itself. Raises `ValueError`."""
    if text and ROUTE.fullmatch(text) is None:
        raise ValueError(f'"{text:.80}" is no path; write it as in /generate, without a query (?)')
    return text


def parse_pacing(text: str) -> Pacing:
    """How requests are spread."""
    match text:
        case "even" | "window":
            return text
        case _:
            raise ValueError(f'"{text:.40}" is no pacing; there are even and window')


def parse_key_place(text: str) -> KeyPlace:
    """Where the API key goes."""
    place: KeyPlace | None = next((place for place in get_args(KeyPlace) if place == text), None)
    if place is None:
        raise ValueError("the key goes either in the query or in the header")
    return place


def address(added: str) -> ValueType[str]:
    """A service's URL, to which `added` is added."""
    return parsed("URL", lambda given: interface_url(given, added=added))


def parse_notify(texts: Sequence[str]) -> str:
    """Who is told of a run: targets, and one URL, `env:NAME` of the variable that holds one, or command line, each in a
    line of its own. It may be a secret, so that it is not repeated.
    """
    found = [_parse_told(text) for text in texts]
    if sum(not is_receiver(each) for each in found) > 1:
        raise ValueError("one URL or command can be told beside targets; write [notify.NAME] for each further one")
    return "\n".join(dict.fromkeys(found))


def format_notify(told: str) -> Sequence[str]:
    """Each as it is written."""
    return told.split("\n")


def _parse_told(text: str) -> str:
    if REFERENCE.fullmatch(text):
        return text
    if is_receiver(text):
        parse_receiver(text)
        return text
    if text.startswith("env:"):
        raise ValueError("write env:NAME, where NAME is the variable that holds the URL")
    if "://" in text.split(" ", maxsplit=1)[0]:
        if urlsplit(parse_hook_url(text)).password is not None:
            raise ValueError("it holds a password, and the ledger would keep that; name the variable: env:NAME")
        return text
    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    if not words or not text.isprintable():
        raise ValueError("write a URL, env:NAME of the variable that holds one, a command, or a target")
    return text


def parse_hook_url(text: str) -> str:
    """A URL that messages are posted to. Its path may be a secret, so that it is not repeated."""
    try:
        parts = urlsplit(text)
        is_url = parts.scheme in ("https", "http") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("this is no URL; write it as https://…, with %XX for what is not ASCII")
    return text
