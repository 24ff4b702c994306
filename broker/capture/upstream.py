"""
Where a person's own model is, and how a connection to it is made.

Decided here: how an address is read, which proxy of the environment is used, and by whose
certificates a server is believed. Not decided here: which address an agent's model has
(``redirect``), and what is sent (``proxy``).

The connection is made as the agent would have made it: with the proxies that its environment
names, and the certificates of the system and of ``SSL_CERT_FILE`` and ``NODE_EXTRA_CA_CERTS``.

Rules a maintainer keeps: TLS is verified always, and there is no switch for it; a key that is put
in the place of a run's token stands in memory only.
"""

from __future__ import annotations

import base64
import os
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from broker.capture.http1 import WireError, answer_head, split_head
from broker.errors import InputError

CONNECT_S: Final = 30.0  # until a server, or a proxy before it, has answered
_PORTS: Final = {"http": 80, "https": 443}
_EXTRA: Final = ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")


@dataclass(frozen=True, slots=True)
class ModelUpstream:
    """
    One model's address, as the person configured it.

    ``name`` stands for it in our own paths. ``keys`` has what is put in the place of a token of
    the run, by that token.

    >>> ModelUpstream.read("openai", "https://api.openai.com/v1/").base
    '/v1'
    """

    name: str
    scheme: str
    host: str
    port: int
    base: str
    query: str = ""
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, name: str, url: str, keys: Mapping[str, str] | None = None) -> ModelUpstream:
        """
        Return the upstream at an address.

        Raises:
            InputError: it is no address of a server.
        """
        try:
            split = urlsplit(url.strip())
            port = split.port
        except ValueError as error:
            raise InputError(f"`{url[:80]}` is no address of a model: {error}") from None
        if split.scheme not in _PORTS or not split.hostname or split.username is not None:
            raise InputError(f"`{_shown(split)}` is no address of a model: write `https://HOST/…`")
        base = split.path.rstrip("/")
        return cls(
            name,
            split.scheme,
            split.hostname,
            port or _PORTS[split.scheme],
            base,
            split.query,
            dict(keys or {}),
        )

    @property
    def authority(self) -> str:
        """The host and port as a ``Host`` field says them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def where(self) -> str:
        """The host and port for a person."""
        return f"{self.host}:{self.port}"


def _shown(split: SplitResult) -> str:
    """Return an address without what may be a password in it."""
    return f"{split.scheme}://{split.hostname or ''}"[:80]


@dataclass(frozen=True, slots=True)
class UpstreamLink:
    """
    A connection to an upstream; ``front`` and ``fields`` are for a proxy that reads our requests.

    ``front`` begins the target of every request, ``fields`` are added to it.
    """

    socket: socket.socket
    front: str = ""
    fields: tuple[tuple[bytes, bytes], ...] = ()


def connect(upstream: ModelUpstream, environ: Mapping[str, str]) -> UpstreamLink:
    """
    Return a connection, made as an agent with this environment would make it.

    Raises:
        OSError: it cannot be made; ``ssl.SSLError``, which is one, where it is not believed.
    """
    proxy = proxy_for(upstream, environ)
    if proxy is None:
        made = _reach(upstream.host, upstream.port)
    else:
        made = _reach(proxy.hostname or "", proxy.port or _PORTS["http"])
    link = UpstreamLink(made)
    try:
        if proxy is not None:
            allowed = _allowed(proxy)
            if upstream.scheme == "http":
                link = UpstreamLink(made, f"http://{upstream.authority}", allowed)
            else:
                _tunnel(made, upstream, allowed)
        if upstream.scheme == "https":
            link = UpstreamLink(_secured(made, upstream.host, environ))
    except BaseException:
        made.close()
        raise
    link.socket.settimeout(None)  # a model may think for long; an agent that gives up is seen
    return link


def proxy_for(upstream: ModelUpstream, environ: Mapping[str, str]) -> SplitResult | None:
    """
    Return the proxy that an environment names for an upstream, or None.

    Raises:
        OSError: it names one of a kind that is not spoken here.

    >>> there = ModelUpstream.read("a", "https://api.example.com")
    >>> proxy_for(there, {"HTTPS_PROXY": "http://p:3128"}).port
    3128
    >>> proxy_for(there, {"HTTPS_PROXY": "http://p:3128", "no_proxy": ".example.com"}) is None
    True
    """
    named = _either(environ, f"{upstream.scheme}_proxy") or _either(environ, "all_proxy")
    if not named:
        return None
    if _reached_directly(upstream, _either(environ, "no_proxy")):
        return None
    split = urlsplit(named if "://" in named else f"http://{named}")
    if split.scheme != "http" or not split.hostname:
        raise OSError(f"the proxy that the environment names is of another kind: {split.scheme}")
    return split


def _reached_directly(upstream: ModelUpstream, listed: str) -> bool:
    """Return whether `no_proxy` names an upstream: itself, a domain that it is in, or all."""
    host = upstream.host.lower()
    if host in ("127.0.0.1", "::1", "localhost"):
        return True
    for entry in filter(None, (each.strip().lower() for each in listed.split(","))):
        name = entry.removeprefix("*").removeprefix(".")
        if entry == "*" or host in (entry, name) or host.endswith(f".{name}"):
            return True
        if entry in (upstream.where, f".{upstream.where}"):
            return True
    return False


def _either(environ: Mapping[str, str], name: str) -> str:
    return (environ.get(name) or environ.get(name.upper()) or "").strip()


def _reach(host: str, port: int) -> socket.socket:
    made = socket.create_connection((host, port), CONNECT_S)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def _allowed(proxy: SplitResult) -> tuple[tuple[bytes, bytes], ...]:
    """Return the field that lets us through a proxy, if its address has a name and a password."""
    if proxy.username is None:
        return ()
    said = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return ((b"Proxy-Authorization", b"Basic " + base64.b64encode(said.encode())),)


def _tunnel(
    made: socket.socket, upstream: ModelUpstream, fields: tuple[tuple[bytes, bytes], ...]
) -> None:
    host = f"[{upstream.host}]" if ":" in upstream.host else upstream.host
    place = f"{host}:{upstream.port}".encode()
    lines = [b"CONNECT " + place + b" HTTP/1.1", b"Host: " + place]
    lines += [name + b": " + value for name, value in fields]
    made.sendall(b"\r\n".join(lines) + b"\r\n\r\n")
    data = b""
    try:
        while (found := split_head(data)) is None:
            more = made.recv(4_096)
            if not more:
                raise OSError("the proxy closed the connection")
            data += more
        status = answer_head(found[0]).words[1]
    except WireError as error:
        raise OSError(f"the proxy does not answer in HTTP/1.1: {error}") from None
    if not status.startswith(b"2"):
        raise OSError(f"the proxy refuses it with status {status.decode()}")


def _secured(made: socket.socket, host: str, environ: Mapping[str, str]) -> ssl.SSLSocket:
    extra = tuple(environ.get(name, "") for name in _EXTRA)
    return _context(extra).wrap_socket(made, server_hostname=host)


@lru_cache(maxsize=4)
def _context(extra: tuple[str, ...]) -> ssl.SSLContext:
    """Return how servers are believed: by the system, and by what the environment adds."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    for path in extra:
        if path and os.path.isfile(path):
            context.load_verify_locations(path)
    return context
