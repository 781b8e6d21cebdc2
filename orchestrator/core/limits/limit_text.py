"""Limits as people write them."""

import re
from typing import Final

from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation

_LIMIT: Final = re.compile(r"([a-z-]+)=(\d{1,10})/(\d{1,5}(?:\.\d{1,6})?)(?::(\d{1,9}))?")


def parse_limit(text: str) -> tuple[Operation, Limit]:
    """`OPERATION=REQUESTS/SECONDS[:CONCURRENT]`, as in `run=1000/10:200`; without CONCURRENT the contract's stays.

    Raises `ValueError` with a text for the user.
    """
    match = _LIMIT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no limit; write OPERATION=REQUESTS/SECONDS[:CONCURRENT], as in run=1000/10:200")
    name, requests, window_s, concurrent = match.groups()
    try:
        operation = Operation(name)
    except ValueError:
        raise ValueError(f"{name!r} is no operation; there are {', '.join(Operation)}") from None
    at_once = CONTRACT_LIMITS[operation].concurrent if concurrent is None else int(concurrent)
    return operation, Limit(int(requests), float(window_s), at_once)


def format_limit(operation: Operation, limit: Limit) -> str:
    """What `parse_limit` reads."""
    at_once = "" if limit.concurrent is None else f":{limit.concurrent}"
    window_s = f"{limit.window_s:.6f}".rstrip("0").rstrip(".")  # "g" would round, and write powers of ten
    return f"{operation}={limit.requests}/{window_s}{at_once}"
