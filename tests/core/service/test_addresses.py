"""Addresses to listen on and URLs to be reached under, as people write them."""

import ipaddress
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.service.addresses import (
    Address,
    interface_url,
    is_loopback,
    leads_to_loopback,
    parse_address,
    path_prefix,
    webhook_base_url,
)
from orchestrator.core.service.webhook_token import hook_url, token
from orchestrator.errors import UsageError
from tests.web.requests import KEY


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8080", Address("127.0.0.1", 8080)),
        (":8080", Address("127.0.0.1", 8080)),
        (":0", Address("127.0.0.1", 0)),
        ("[::1]:0", Address("::1", 0)),
        ("0.0.0.0:65535", Address("0.0.0.0", 65_535)),
        ("[::]:80", Address("::", 80)),
        ("gpu-box.local:80", Address("gpu-box.local", 80)),
    ],
)
def test_an_address_is_a_host_and_a_port_and_a_missing_host_is_this_machine_only(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", "8080", "localhost", "localhost:", ":65536", ":-1", ":8O", "::1:80", "[::1]", "[]:80", "a b:1"),
        *(":80\n", "http://x:80", "[::1", "x:99999999", ":\N{ARABIC-INDIC DIGIT SEVEN}"),
    ],
)
def test_what_is_no_address_is_named_with_the_forms_that_are(text: str) -> None:
    with pytest.raises(UsageError, match=r"HOST:PORT, :PORT or \[IPv6\]:PORT"):
        parse_address(text)


@given(st.ip_addresses().map(str) | st.just("localhost"), st.integers(0, 65_535))
def test_an_address_reads_back_what_it_prints(host: str, port: int) -> None:
    assert parse_address(str(Address(host, port))) == (host, port)


@pytest.mark.parametrize(
    ("given_url", "base", "prefix"),
    [
        ("https://example.com", "https://example.com", ""),
        ("https://example.com/", "https://example.com", ""),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080", ""),
        ("http://[::1]:8080/", "http://[::1]:8080", ""),
        ("https://example.com/gpu/batch/", "https://example.com/gpu/batch", "/gpu/batch"),
        ("https://example.com/a%20b", "https://example.com/a%20b", "/a b"),
        ("HTTPS://example.com/x", "HTTPS://example.com/x", "/x"),
    ],
)
def test_a_webhook_base_url_loses_its_last_slash_and_shows_its_prefix(given_url: str, base: str, prefix: str) -> None:
    assert webhook_base_url(given_url) == base
    assert path_prefix(base) == prefix


def test_a_hook_url_is_the_base_the_path_of_hooks_and_the_token() -> None:
    assert hook_url("https://example.com/gpu", token(KEY, 7)) == f"https://example.com/gpu/hooks/{token(KEY, 7)}"


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", "write http"),
        ("example.com", "write http"),
        ("example.com:8080", "write http"),
        ("ftp://example.com", "write http"),
        ("https://", "write http"),
        ("https:///hooks", "write http"),
        ("https://:80/", "write http"),
        ("https://example.com:99999", "write http"),
        ("https://example.com:http", "write http"),
        ("https://[::1", "write http"),
        ("https://exa mple.com", "write http"),
        ("https://example.com/\n", "write http"),
        ("https://ex\N{LATIN SMALL LETTER A WITH DIAERESIS}mple.com", "write http"),
        ("https://example.com/?", "a query"),
        ("https://example.com/?token=hush", "a query"),
        ("https://example.com/#top", "a fragment"),
        ("https://me:hush@example.com", "user name or password"),
        ("https://hush@example.com", "user name or password"),
    ],
)
def test_what_cannot_be_the_base_of_a_webhook_url_is_refused_without_being_repeated(url: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as caught:
        webhook_base_url(url)

    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("url", ["https://api.example/v2x", "http://127.0.0.1:8/a/"])
def test_the_url_of_an_interface_loses_its_last_slash(url: str) -> None:
    assert interface_url(url, added="/v2") == url.rstrip("/")


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("api.example", "no URL"),
        ("ftp://api.example", "no URL"),
        ("https://", "no URL"),
        ("https://u:p@api.example", "must not hold a password"),
        ("https://api.example?key=1", "must not hold a password"),
        ("https://api.example/#x", "must not hold a password"),
        ("https://api.example/v2/", "leave /v2 out"),
    ],
)
def test_what_cannot_be_the_url_of_an_interface_is_refused_with_what_to_write(url: str, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        interface_url(url, added="/v2")


# --- what this machine is


@pytest.mark.parametrize(
    "host",
    [
        "localhost", "LocalHost", "localhost.", "emu.localhost", "a.b.localhost.", "127.0.0.1", "127.0.0.53",
        "127.255.255.254", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1",
    ],
)  # fmt: skip
def test_addresses_and_names_of_this_machine(host: str) -> None:
    assert is_loopback(host)
    assert leads_to_loopback(f"http://{f'[{host}]' if ':' in host else host}:8900/v2")


@pytest.mark.parametrize(
    "host",
    [
        "", "127.evil.example", "127.0.0.1.evil.example", "127.0.0.1.nip.io", "127", "127.1", "127.0.0.256", "128.0.0.1",
        "localhost.evil.example", "evillocalhost", "localhost4", "::2", "0.0.0.0", "::", "::ffff:10.0.0.1", "10.0.0.1",
    ],
)  # fmt: skip
def test_what_only_looks_like_it(host: str) -> None:
    assert not is_loopback(host)
    assert not leads_to_loopback(f"http://{f'[{host}]' if ':' in host else host}:8900/v2")


@given(st.integers(0, 2**32 - 1).map(ipaddress.IPv4Address))
def test_of_all_addresses_those_of_127(address: ipaddress.IPv4Address) -> None:
    assert is_loopback(str(address)) is (address.packed[0] == 127)


def test_what_is_no_url_leads_nowhere() -> None:
    assert not leads_to_loopback("localhost:8900")
