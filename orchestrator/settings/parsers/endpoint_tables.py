"""What the configuration file says of single endpoints: tables by id, name or URL, and the headers of those at URLs."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from orchestrator.core.service.endpoint_headers import EndpointHeaders, read_headers
from orchestrator.core.service.url_endpoints import is_url, looks_like_url, url_endpoint

HEADERS_KEY: Final = "headers"
"""What such a table says, where the endpoint is a URL, of what its requests carry besides."""


class EndpointTables(NamedTuple):
    """The tables, each by what the ledger calls its endpoint, without their headers; and these, by URL."""

    tables: Mapping[str, Any]
    headers: Mapping[str, Mapping[str, object]]


def endpoint_tables(given: Mapping[str, Any]) -> EndpointTables:
    """Sorts out what was `given`. Raises `ValueError`."""
    tables: dict[str, Any] = {}
    headers: dict[str, Mapping[str, object]] = {}
    for written, members in given.items():
        try:
            name = url_endpoint(written) if looks_like_url(written) else written
        except ValueError as error:
            raise ValueError(f"the name of a table: {error}") from None
        if name in tables:
            raise ValueError(f"{name} has two tables")
        tables[name] = members
        if isinstance(members, dict) and HEADERS_KEY in members:
            headers[name] = _headers(name, members[HEADERS_KEY])
            tables[name] = {key: value for key, value in members.items() if key != HEADERS_KEY}
    return EndpointTables(tables, headers)


def _headers(name: str, given: object) -> Mapping[str, object]:
    if not is_url(name):
        raise ValueError(f"{name}: {HEADERS_KEY} are for endpoints that are URLs; the service takes none")
    if isinstance(given, dict):
        return given
    raise ValueError(f'{name}: write {HEADERS_KEY} = {{ Authorization = "env:NAME" }}')


def headers_by_url(
    given: Mapping[str, Mapping[str, object]], environ: Mapping[str, str]
) -> Mapping[str, EndpointHeaders]:
    """The headers with their values, by URL. Raises `ValueError`."""
    found = {}
    for url, members in given.items():
        try:
            found[url] = read_headers(members, environ)
        except ValueError as error:
            raise ValueError(f"{url}: {HEADERS_KEY}: {error}") from None
    return found
