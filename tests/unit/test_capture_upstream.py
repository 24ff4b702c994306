"""A model is reached as its agent would reach it, and believed only by a certificate."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from broker.capture.upstream import ModelUpstream, proxy_for
from broker.errors import InputError
from tests.capturekit import Server, ask, connected, hear, plain, proxied, read_answer, saying


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for this machine that signs itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "here")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            ),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
        )
        .add_extension(
            x509.KeyUsage(
                digital_signature=True, content_commitment=False, key_encipherment=False,
                data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=True,
                encipher_only=False, decipher_only=False,
            ),
            critical=True,
        )
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    paths = folder / "cert.pem", folder / "key.pem"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return paths


def secure(certificate: tuple[Path, Path], answer: bytes) -> Server:
    """Return a server that speaks TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return Server(saying(answer), lambda near: context.wrap_socket(near, server_side=True))


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"])
def test_a_certificate_that_the_environment_names_is_believed(
    tmp_path: Path, certificate: tuple[Path, Path], variable: str
) -> None:
    """A server behind an authority of the person's own is reached, also by large answers."""
    body = b"x" * 3_000_000
    server = secure(certificate, plain(body))
    environ = {variable: str(certificate[0])}
    with proxied(tmp_path, f"https://localhost:{server.port}", environ) as (proxy, watched):
        with connected(proxy.port) as near:
            for _ in range(2):
                near.sendall(ask())
                assert read_answer(near).endswith(b"\r\n\r\n" + body)
        assert watched.last(2).answer.size_bytes == len(body)
    assert server.connections == 1


def test_a_certificate_that_nobody_names_is_not(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    """A server that nobody vouches for gets no byte of the request, and is named."""
    server = secure(certificate, plain(b"ok"))
    with (
        proxied(tmp_path, f"https://localhost:{server.port}") as (proxy, _),
        connected(proxy.port) as near,
    ):
        near.sendall(ask())
        got = read_answer(near)
    assert got.startswith(b"HTTP/1.1 502 ")
    assert b"its certificate is not believed" in got


def test_a_tunnel_through_a_proxy(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    """HTTPS goes through the proxy that the environment names, with its name and password."""
    asked: list[bytes] = []
    server = secure(certificate, plain(b"ok"))

    def tunnel(near: socket.socket) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            data += near.recv(4_096)
        asked.append(data)
        near.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        far = connected(server.port)
        near.settimeout(0.05)
        far.settimeout(0.05)
        while True:
            for one, other in ((near, far), (far, near)):
                try:
                    data = one.recv(65_536)
                except TimeoutError:
                    continue
                if not data:
                    return
                other.sendall(data)

    through = Server(tunnel)
    environ = {
        "HTTPS_PROXY": f"http://me:p%40ss@127.0.0.1:{through.port}",
        "SSL_CERT_FILE": str(certificate[0]),
    }
    # Whoever names this machine reaches it directly, so the model has another name.
    name = socket.gethostname()
    upstream = f"https://{name}:{server.port}"
    with proxied(tmp_path, upstream, environ) as (proxy, _), connected(proxy.port) as near:
        near.sendall(ask())
        got = read_answer(near)
    assert asked[0].startswith(f"CONNECT {name}:{server.port} HTTP/1.1\r\n".encode())
    assert b"Proxy-Authorization: Basic bWU6cEBzcw==\r\n" in asked[0]
    # The certificate is for `localhost`: what comes through a tunnel is not believed more easily.
    assert b"its certificate is not believed" in got


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 407 No\r\n\r\n", b"the proxy refuses it with status 407"),
        (b"", b"the proxy closed the connection"),
        (b"hello\r\n\r\n", b"the proxy does not answer in http/1.1"),
    ],
)
def test_a_proxy_that_refuses_is_told(tmp_path: Path, answer: bytes, said: bytes) -> None:
    """What a proxy says instead of a tunnel reaches the agent as an error that names it."""

    def serve(near: socket.socket) -> None:
        near.recv(4_096)
        near.sendall(answer)

    environ = {"https_proxy": Server(serve).url}
    with (
        proxied(tmp_path, "https://api.example.com", environ) as (proxy, _),
        connected(proxy.port) as near,
    ):
        near.sendall(ask())
        assert said in read_answer(near)


def test_a_plain_model_behind_a_proxy(tmp_path: Path) -> None:
    """HTTP is asked of the proxy by the whole address."""
    seen: list[bytes] = []

    def serve(near: socket.socket) -> None:
        head, _, _ = hear(near)
        seen.append(head)
        near.sendall(plain(b"ok"))

    environ = {"HTTP_PROXY": Server(serve).url.removeprefix("http://")}
    with (
        proxied(tmp_path, "http://model.example:8080/v1", environ) as (proxy, _),
        connected(proxy.port) as near,
    ):
        near.sendall(ask("/chat/completions"))
        assert read_answer(near).endswith(b"ok")
    line = b"POST http://model.example:8080/v1/chat/completions HTTP/1.1\r\n"
    assert seen[0].startswith(line + b"Host: model.example:8080\r\n")


def test_which_proxy_is_used() -> None:
    """The environment's proxy is used but for what it leaves out, and for this machine."""
    there = ModelUpstream.read("m", "https://api.example.com:8443")
    environ = {"HTTPS_PROXY": "http://p:1", "ALL_PROXY": "http://q:2"}
    found = proxy_for(there, environ)
    assert found is not None
    assert found.port == 1
    for said in ("*", "api.example.com", ".example.com", "example.com", "api.example.com:8443"):
        assert proxy_for(there, {**environ, "NO_PROXY": f"x, {said}"}) is None
    for said in ("ample.com", "api.example.com:1", ""):
        assert proxy_for(there, {**environ, "NO_PROXY": said}) is not None
    for here in ("https://127.0.0.1", "https://localhost:1", "https://[::1]"):
        assert proxy_for(ModelUpstream.read("m", here), environ) is None
    with pytest.raises(OSError, match="another kind: socks5"):
        proxy_for(there, {"ALL_PROXY": "socks5://p:1"})


@pytest.mark.parametrize("url", ["", "api.example.com", "ftp://a", "http://a:x", "http://u:p@a/"])
def test_what_is_no_address_is_refused(url: str) -> None:
    """An address that is none is refused, and no password in it is told."""
    with pytest.raises(InputError, match="no address of a model") as caught:
        ModelUpstream.read("m", url)
    assert "u:p" not in str(caught.value)


def test_how_an_address_is_read() -> None:
    """Its parts are kept as they are asked for; a key does not show."""
    found = ModelUpstream.read("m", " https://[::1]:8443/v1/?api-version=1 ", {"t": "secret"})
    assert (found.authority, found.base, found.query) == ("[::1]:8443", "/v1", "api-version=1")
    assert ModelUpstream.read("m", "http://a").authority == "a"
    assert "secret" not in repr(found)
