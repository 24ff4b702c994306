"""Anchors to test with: a witness, a time-stamping authority and a git remote, all on loopback."""

from __future__ import annotations

import base64
import subprocess
import threading
from collections.abc import Mapping
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from broker.anchors.anchor import Consistency
from broker.anchors.witness import cosigned
from broker.receipt.checkpoint import OF_LEDGER, Checkpoint, open_checkpoint, sign_checkpoint
from broker.receipt.merkle import Frontier
from broker.receipt.paths import check_consistency, consistency_path
from broker.receipt.signing import SigningKey, VerifyKey

SEED = bytes(range(64, 96))
NOW_S = 1_796_025_600


class Serving:
    """Something behind HTTP on loopback; use it in a ``with``."""

    headers: Mapping[str, str] = {}

    def __init__(self) -> None:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                status, kind, answer = outer.answer(self.path, body)
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(answer)))
                for name, value in outer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def answer(self, path: str, body: bytes) -> tuple[int, str, bytes]:
        """Return status, kind and body of an answer."""
        return 404, "text/plain", path.encode() + body

    def __enter__(self) -> Any:
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


class WitnessServer(Serving):
    """
    A witness as C2SP's tlog-witness says: it remembers one size and root for each origin, and
    cosigns what it can prove to have grown out of it.
    """

    def __init__(self, trusted: VerifyKey, *, name: str = "witness.example/w1") -> None:
        super().__init__()
        self.trusted = trusted
        self.key = SigningKey.of(SEED)
        self.name = name
        self.known: dict[str, tuple[int, bytes]] = {}
        self.now_s = NOW_S

    @property
    def vkey(self) -> str:
        """The witness's public key, of the kind that cosigns."""
        raw = b"\x04" + self.key.public.public
        return f"{self.name}+{self._id().hex()}+{base64.b64encode(raw).decode()}"

    def _id(self) -> bytes:
        raw = b"\x04" + self.key.public.public
        return sha256(self.name.encode() + b"\n" + raw).digest()[:4]

    def answer(self, path: str, body: bytes) -> tuple[int, str, bytes]:
        """Take a checkpoint, or say why not."""
        if path != "/add-checkpoint":
            return 404, "text/plain", b""
        head, _, note = body.partition(b"\n\n")
        first, *proof = head.decode().split("\n")
        old = int(first.removeprefix("old "))
        try:
            found = open_checkpoint(note, [self.trusted], None)
        except Exception:  # noqa: BLE001  whatever it is, it is not signed by whom we trust
            return 403, "text/plain", b""
        size, root = self.known.get(found.origin, (0, b""))
        if old != size:
            return 409, "text/x.tlog.size", f"{size}\n".encode()
        if size == found.size and root != found.root:
            return 409, "text/plain", b""
        if size and size != found.size:
            try:
                hashes = [base64.b64decode(line) for line in proof]
                check_consistency(size, found.size, root, found.root, hashes)
            except Exception:  # noqa: BLE001  it is not proven
                return 422, "text/plain", b""
        self.known[found.origin] = (found.size, found.root)
        return 200, "text/plain", self.cosign(found)

    def cosign(self, found: Checkpoint) -> bytes:
        """Return the signature line over a checkpoint at this witness's time."""
        signature = self.key.sign(cosigned(found.text(), self.now_s))
        raw = self._id() + self.now_s.to_bytes(8, "big") + signature
        return f"\u2014 {self.name} {base64.b64encode(raw).decode()}\n".encode()


class TimestampServer(Serving):
    """A time-stamping authority made of the `openssl` program, with roots of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.roots = folder / "roots.pem"
        folder.mkdir(parents=True)
        self._make()

    def _openssl(self, *words: str, given: bytes = b"") -> bytes:
        done = subprocess.run(
            ("openssl", *words), input=given, capture_output=True, check=False, cwd=self.folder
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def _make(self) -> None:
        (self.folder / "ca.cnf").write_text(
            "[req]\ndistinguished_name=dn\n[dn]\n"
            "[ca]\nbasicConstraints=critical,CA:true\nkeyUsage=critical,keyCertSign\n"
            "subjectKeyIdentifier=hash\n"
            "[tsa]\nbasicConstraints=critical,CA:false\nkeyUsage=critical,digitalSignature\n"
            "extendedKeyUsage=critical,timeStamping\nsubjectKeyIdentifier=hash\n"
            "authorityKeyIdentifier=keyid\n"
            "[ts]\ndefault_tsa=here\n[here]\nserial=serial\ncrypto_device=builtin\n"
            "signer_cert=tsa.pem\nsigner_key=tsa.key\nsigner_digest=sha256\n"
            "default_policy=1.2.3.4.1\ndigests=sha256\naccuracy=secs:1\n"
            "ordering=yes\ntsa_name=no\ness_cert_id_chain=no\ness_cert_id_alg=sha256\n"
        )
        (self.folder / "serial").write_text("01\n")
        key = ("-newkey", "rsa:2048", "-nodes", "-config", "ca.cnf")
        self._openssl(
            *("req", "-x509", *key, "-keyout", "ca.key", "-out", "roots.pem", "-days", "3650"),
            *("-subj", "/CN=test root", "-extensions", "ca"),
        )
        self._openssl(
            *("req", "-new", *key, "-keyout", "tsa.key", "-out", "tsa.csr", "-subj", "/CN=tsa")
        )
        self._openssl(
            *("x509", "-req", "-in", "tsa.csr", "-CA", "roots.pem", "-CAkey", "ca.key"),
            *("-CAcreateserial", "-out", "tsa.pem", "-days", "3650"),
            *("-extfile", "ca.cnf", "-extensions", "tsa"),
        )

    def answer(self, path: str, body: bytes) -> tuple[int, str, bytes]:
        """Answer a request with a token."""
        (self.folder / "query.tsq").write_bytes(body)
        self._openssl(
            *("ts", "-reply", "-config", "ca.cnf", "-section", "here"),
            *("-queryfile", "query.tsq", "-out", "reply.tsr"),
        )
        return 200, "application/timestamp-reply", (self.folder / "reply.tsr").read_bytes()


def bare_remote(folder: Path) -> str:
    """Make an empty git remote that takes no forced push, and return its address."""
    subprocess.run(["git", "init", "--quiet", "--bare", str(folder)], check=True)
    subprocess.run(
        ["git", "-C", str(folder), "config", "receive.denyNonFastForwards", "true"], check=True
    )
    return str(folder)


class Log:
    """A log of lines that grows, with the checkpoints that its owner signs."""

    def __init__(self, lines: int, seed: bytes = bytes(range(32))) -> None:
        self.key = SigningKey.of(seed)
        self.lines = [b"line %d" % n for n in range(lines)]

    def note(self, size: int, of: str = OF_LEDGER) -> bytes:
        """Return the signed checkpoint of the first lines."""
        tree = Frontier()
        for line in self.lines[:size]:
            tree.append(line)
        return sign_checkpoint(self.key, of, size, tree.root())

    def grown(self, size: int) -> Consistency:
        """Return what proves that the first lines grew out of fewer."""
        return lambda old: consistency_path(self.lines, old, size)
