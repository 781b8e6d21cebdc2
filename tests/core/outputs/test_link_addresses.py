"""From where links of outputs are fetched."""

import pytest

from orchestrator.core.outputs.link_addresses import may_be_fetched_from


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822", "2002:5db8:d822::1"])
def test_public_addresses_may(address: str) -> None:
    assert may_be_fetched_from(address, ())


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"),
        *("224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1%eth0", "fd00::1", "ff02::1"),
        *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b:1::5db8:d822", "2002:7f00:1::1"),
        "2001:0:4136:e378:8000:63bf:80ff:fffe",
        "localhost",
    ],
)
def test_others_may_not_however_they_are_written(address: str) -> None:
    assert not may_be_fetched_from(address, ())


@pytest.mark.parametrize(
    ("address", "may"),
    [("10.2.3.4", True), ("::ffff:10.2.3.4", True), ("10.3.0.1", False), ("fd00::7", True), ("127.0.0.1", False)],
)
def test_networks_that_are_named_may_too(address: str, may: bool) -> None:
    assert may_be_fetched_from(address, ("10.2.0.0/16", "fd00::7")) is may
