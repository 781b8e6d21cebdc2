"""One rule for what this machine is."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.service.addresses import is_loopback, leads_to_loopback


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
