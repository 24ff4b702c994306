"""Which connections are admitted, and in which words others are refused."""

from __future__ import annotations

import pytest

from broker.capture.upstream import ModelUpstream
from broker.hosts import UrlError, read_url
from broker.sandbox.admission import Admission, tunnel, unnamed


def test_every_list_must_admit() -> None:
    """A host that one of two lists leaves out is refused, and the refusal names it."""
    admission = Admission((("*.example.com",), ("a.example.com",)), True)
    assert admission.judge(read_url("https://a.example.com/")) is None
    refusal = admission.judge(read_url("https://b.example.com/"))
    assert refusal is not None
    assert (refusal.caveat, refusal.value) == ("hosts", "b.example.com")
    assert "a.example.com" in refusal.reason


def test_no_network_refuses_all_but_needs() -> None:
    """A scope that names no hosts reaches only what the agent itself needs."""
    admission = Admission((), False, ("api.example.com",))
    assert admission.judge(read_url("https://api.example.com/v1")) is None
    refused = admission.judge(read_url("https://example.com/"))
    assert refused is not None
    assert "names no hosts" in refused.reason


def test_none_refuses_every_host() -> None:
    """An empty list admits nothing."""
    assert Admission(((),), True).judge(read_url("https://example.com/")) is not None


def test_another_port_is_another_host() -> None:
    """A host without a port is the default port of its scheme, and no other."""
    admission = Admission((("example.com",),), True)
    assert admission.judge(tunnel("example.com:443")) is None
    assert admission.judge(tunnel("example.com:80")) is None
    assert admission.judge(tunnel("example.com:8443")) is not None


@pytest.mark.parametrize(
    "target", ["example.com", ":443", "a/b:443", "u@example.com:443", "", "a b:443", "exa%6dple:1"]
)
def test_an_odd_tunnel_is_refused(target: str) -> None:
    """What is not a host and a port is no target of a tunnel."""
    with pytest.raises(UrlError):
        tunnel(target)


def test_addresses_that_are_named() -> None:
    """An address counts as named by its own spelling and port only."""
    admission = Admission((("10.0.0.1:8080", "*.example.com"),), True)
    assert admission.names("10.0.0.1", 8080)
    assert not admission.names("10.0.0.1", 443)
    assert not admission.names("10.0.0.2", 8080)
    assert not Admission((("*",),), True).names("10.0.0.1", 443)


def test_models_that_the_ticket_names() -> None:
    """A model is left where every list admits its address; one that cannot be read is not."""
    models = {
        name: ModelUpstream.read(name, url)
        for name, url in (
            ("a", "https://api.anthropic.com"),
            ("b", "https://api.openai.com/v1"),
            ("c", "http://127.0.0.1:8080"),
            ("d", "http://[::1]:8080"),
        )
    }
    named = Admission((("api.anthropic.com", "127.0.0.1:8080"),), True)
    assert unnamed(named, models) == ["b", "d"]
    assert unnamed(Admission((), False), models) == list(models)
