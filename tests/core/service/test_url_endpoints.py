"""Endpoints that are URLs: how they are written, and which of them may see the service's key."""

import pytest

from orchestrator.core.service.url_endpoints import (
    URL_CHARS_MAX,
    belongs_to_service,
    is_pods,
    is_url,
    looks_like_url,
    openai_url,
    root_of,
    url_endpoint,
)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("https://host/v1", "https://host/v1"),
        ("HTTPS://Host.Example:443/V1/", "https://host.example/V1"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://127.0.0.1:80//", "http://127.0.0.1"),
        ("http://[::1]:8000/a", "http://[::1]:8000/a"),
        ("https://abc-8000.proxy.example.net/a/b%20c/d.e~f", "https://abc-8000.proxy.example.net/a/b%20c/d.e~f"),
    ],
)
def test_a_url_is_always_written_the_same_way(given: str, kept: str) -> None:
    assert url_endpoint(given) == kept == url_endpoint(kept)
    assert looks_like_url(given)
    assert is_url(kept)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("https://me:secret@host/v1", "no user and no password"),
        ("https://secret@host", "no user and no password"),
        ("https://host/v1?key=secret", "no query"),
        ("https://host/v1#secret", "no query"),
        ("https://host/?", "no query"),
        ("ftp://secret", "no URL of an endpoint"),
        ("https://", "no URL of an endpoint"),
        ("https://host:secret/", "no URL of an endpoint"),
        ("https://host:99999", "no URL of an endpoint"),
        ("https://ho st", "no URL of an endpoint"),
        ("https://hö", "no URL of an endpoint"),
        ("https://host\n", "no URL of an endpoint"),
        (f"https://host/{'a' * URL_CHARS_MAX}", "no URL of an endpoint"),
        ("https://host/../secret", "this host or path"),
        ("https://host/a//secret", "this host or path"),
        ("https://host/sec'ret", "this host or path"),
        ("https://ho$t/", "this host or path"),
    ],
)
def test_what_is_none_is_refused_without_being_quoted(given: str, told: str) -> None:
    with pytest.raises(ValueError, match=told) as refused:
        url_endpoint(given)
    assert "secret" not in str(refused.value)


def test_an_id_is_no_url() -> None:
    assert not is_url("abc123")
    assert is_url("pods:vllm")
    assert is_pods("pods:vllm")
    assert not is_pods("https://pods")
    assert not looks_like_url("local:handlers.py:work")


@pytest.mark.parametrize(
    ("url", "route", "to"),
    [
        ("https://host/v1", "/v1/chat/completions", "https://host/v1/chat/completions"),
        ("https://host", "/v1/chat/completions", "https://host/v1/chat/completions"),
        ("https://host/a/v1", "/v1/embeddings", "https://host/a/v1/embeddings"),
        ("https://host/v1", "/score", "https://host/v1/score"),
    ],
)
def test_the_version_stands_in_a_url_once(url: str, route: str, to: str) -> None:
    assert openai_url(url, route) == to


def test_a_server_tells_how_it_is_beside_its_version() -> None:
    assert (root_of("https://host/a/v1"), root_of("https://host/gen")) == ("https://host/a", "https://host/gen")


SERVICE = "https://api.example.com"


@pytest.mark.parametrize(
    ("url", "service", "expected"),
    [
        ("https://api.example.com/x", SERVICE, True),
        ("https://abc.api.example.com/generate", SERVICE, True),
        ("https://a.b.API.example.com./", SERVICE, True),
        ("https://api.example.com:443/x", SERVICE, True),
        ("http://127.0.0.1:8900/lb/abc", "http://127.0.0.1:8900", True),
        ("https://example.com/x", SERVICE, False),
        ("https://other.example.com/x", SERVICE, False),
        ("https://evilapi.example.com/x", SERVICE, False),
        ("https://api.example.com.evil.net/x", SERVICE, False),
        ("http://abc.api.example.com/x", SERVICE, False),
        ("https://api.example.com:8443/x", SERVICE, False),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8900", False),
        ("http://1.127.0.0.1/v1", "http://127.0.0.1", False),
        ("http://x.localhost/v1", "http://localhost", False),
        ("https://a.internal/v1", "https://internal", False),
        ("https://[::1]/v1", "https://[::2]", False),
    ],
)
def test_only_what_is_the_services_may_see_its_key(url: str, service: str, expected: bool) -> None:
    assert belongs_to_service(url, service) is expected
