"""Which addresses are public, and where a name may lead."""

from __future__ import annotations

import pytest

from broker.errors import InputError
from broker.sandbox.addresses import is_public, look_up, reached

INNER = (
    *("0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "169.254.169.254", "172.16.0.1"),
    *("192.0.0.8", "192.0.2.1", "192.168.1.1", "198.18.0.1", "224.0.0.1", "255.255.255.255"),
    *("::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "ff02::1", "fec0::1"),
    *("::ffff:10.0.0.1", "::ffff:127.0.0.1", "64:ff9b::a00:1", "64:ff9b:1::1", "2002:a00:1::"),
    *("2001:db8::1", "2001:0:4136:e378:8000:63bf:f5ff:fffe", "not an address", ""),
)
OUTER = ("1.1.1.1", "93.184.216.34", "2606:4700::1111", "64:ff9b::101:101", "::ffff:1.1.1.1")


@pytest.mark.parametrize("address", INNER)
def test_an_inner_address_is_not_public(address: str) -> None:
    """Private, local, mapped and malformed addresses are not of the public internet."""
    assert not is_public(address)


@pytest.mark.parametrize("address", OUTER)
def test_an_outer_address_is_public(address: str) -> None:
    """Addresses of the public internet are, by whatever mapping they are spelled."""
    assert is_public(address)


def nobody(_address: str, _port: int) -> bool:
    """Name no address."""
    return False


@pytest.mark.parametrize("found", [["10.0.0.1"], ["1.1.1.1", "10.0.0.1"], ["::1"], []])
def test_a_name_that_leads_inside_is_refused(found: list[str]) -> None:
    """One inner address among others, or none at all, refuses the name."""
    with pytest.raises(InputError):
        reached("a.example", 443, nobody, lambda *_: found)


def test_an_address_that_is_named_is_reached() -> None:
    """An inner address is reached where the ticket names it, with that port."""
    asked = []

    def named(address: str, port: int) -> bool:
        asked.append((address, port))
        return True

    assert reached("a.example", 8443, named, lambda *_: ["10.0.0.1", "fd00::1"]) == [
        "10.0.0.1",
        "fd00::1",
    ]
    assert asked == [("10.0.0.1", 8443), ("[fd00::1]", 8443)]


def test_localhost_is_this_machine_only() -> None:
    """What `localhost` means is fixed, so it needs no address beside it, and leads nowhere else."""
    assert reached("localhost", 80, nobody, lambda *_: ["127.0.0.1", "::1"])
    with pytest.raises(InputError):
        reached("localhost", 80, nobody, lambda *_: ["10.0.0.1"])


def test_an_address_is_not_looked_up() -> None:
    """What is an address already is the only place that is reached."""

    def fails(*_: object) -> list[str]:
        raise AssertionError

    assert reached("10.0.0.1", 80, nobody, fails) == ["10.0.0.1"]
    assert reached("[::1]", 80, nobody, fails) == ["::1"]


def test_a_name_without_an_address() -> None:
    """The resolver's own error becomes a refusal."""

    def fails(*_: object) -> list[str]:
        raise OSError("unknown")

    with pytest.raises(InputError, match="has no address"):
        reached("a.example", 80, nobody, fails)


def test_the_machines_resolver_knows_loopback() -> None:
    """The real resolver answers with addresses."""
    assert set(look_up("localhost", 80)) <= {"127.0.0.1", "::1"}
