"""One service from its start to its seal, in a process of its own."""

from __future__ import annotations

import io
import json
import signal
import ssl
import subprocess
import threading
from pathlib import Path

import pytest

from broker.cli.serve import address
from broker.errors import ConfigError, InputError, LaunchError
from broker.home import Home
from broker.receipt.audit import audit
from broker.receipt.keys import load_key
from broker.receipt.store import Receipts
from broker.receipt.verify import Verdict, read_entries
from broker.service.listening import Tls
from broker.service.running import Wished, serve
from broker.sessions.ground import key_path
from tests.servekit import CALL, KEYS, OPERATOR, Served, private_file, served
from tests.unit.test_service_listening import LAST


def _receipts(pdp: Served) -> Receipts:
    home = Home.find({"BROKER_HOME": str(pdp.home)})
    return Receipts(home, load_key(key_path(home)))


def _verdict(pdp: Served, sid: str) -> Verdict:
    return audit(_receipts(pdp), sid)


def _decided(pdp: Served) -> list[str]:
    receipts = _receipts(pdp)
    path, head = receipts.path(pdp.sid), receipts.head_path(pdp.sid)
    found = read_entries(path, receipts.key, head, sid=pdp.sid)
    return [str(entry.data["call"]) for entry in found if entry.kind == "decision"]


def _hammer(pdp: Served, allowed: set[str], stop: threading.Event, name: int) -> None:
    """Ask until the service is gone, and keep the names of the calls that were allowed."""
    number = 0
    while not stop.is_set():
        number += 1
        call = f"{name}-{number}"
        try:
            heard = pdp.ask("/access/v1/evaluation", {**CALL, "context": {"call_id": call}})
        except OSError:
            return
        if heard.status == 200 and heard.json()["decision"]:
            allowed.add(call)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_that_was_allowed_is_missing_from_the_receipt(
    tmp_path: Path, number: signal.Signals
) -> None:
    """However the service ends under load, each allow that was heard stands in the receipt."""
    subjects = '[[ticket]]\nfor = ["user:ana"]\nscope = ["tools=can_read"]'
    with served(tmp_path, subjects=subjects) as pdp:
        allowed: set[str] = set()
        stop = threading.Event()
        askers = [
            threading.Thread(target=_hammer, args=(pdp, allowed, stop, name)) for name in range(6)
        ]
        for asker in askers:
            asker.start()
        while len(allowed) < 60:
            stop.wait(0.01)
        code = pdp.end(number)
        stop.set()
        for asker in askers:
            asker.join(30)
        assert code == (0 if number == signal.SIGTERM else -signal.SIGKILL)
        assert allowed <= set(_decided(pdp))
        verdict = _verdict(pdp, pdp.sid)
        assert verdict.state == ("SEALED" if number == signal.SIGTERM else "OPEN")
        assert (pdp.events()[-1]["event"] == "sealed") == (number == signal.SIGTERM)


def test_a_service_from_its_start_to_its_seal(tmp_path: Path) -> None:
    """Minted sessions end with it, its files are closed to tools, and its log says how it went."""
    with served(tmp_path, "--log-requests") as pdp:
        body = {"line": "read all", "scope": ["tools=Read"]}
        minted = pdp.ask("/v1/mint", body, key=OPERATOR).json()
        ask = {"ticket": minted["ticket"], "tool": "Read"}
        for name in ("keys", "subjects.toml", "home/data/keys"):
            arguments = {"file_path": str(tmp_path / name)}
            heard = pdp.ask("/v1/check", {**ask, "arguments": arguments}).json()
            assert (heard["decision"], heard["caveat"]) == ("refuse", "own")
        assert pdp.ask("/access/v1/evaluation", CALL).status == 200
        assert pdp.end(signal.SIGINT) == 0
        assert not pdp.local.exists()
        assert {_verdict(pdp, sid).state for sid in (minted["sid"], pdp.sid)} == {"SEALED"}
        events = pdp.events()
        told = [event["event"] for event in events]
        assert told == ["serving", "minted", *["answered"] * 5, "sealed"]
        assert Path(events[0]["receipt"]).is_file()
        assert (events[-1]["allowed"], events[-1]["refused"]) == (1, 0)
        assert json.dumps(events).count(OPERATOR) == 0


def _certificate(root: Path, name: str) -> tuple[Path, Path]:
    key, made = root / f"{name}.key", root / f"{name}.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-keyout", str(key), "-out", str(made), "-subj", f"/CN={name}"]
    command += ["-days", "2", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    return made, key


def test_tls_and_certificates_of_clients(tmp_path: Path) -> None:
    """With an authority for clients, one without a certificate of it is not answered at all."""
    made, key = _certificate(tmp_path, "server")
    theirs, their_key = _certificate(tmp_path, "client")
    words = ("--tls-cert", str(made), "--tls-key", str(key), "--client-ca", str(theirs))
    with served(tmp_path, *words) as pdp:
        context = ssl.create_default_context(cafile=str(made))

        def ask() -> bytes:
            with context.wrap_socket(pdp.connect(), server_hostname="127.0.0.1") as connection:
                connection.sendall(LAST)
                parts = []
                while part := connection.recv(65_536):
                    parts.append(part)
                return b"".join(parts)

        try:
            heard = ask()
        except (ssl.SSLError, ConnectionError):
            heard = b""
        assert heard == b""  # TLS 1.3 tells a client only after the handshake, or just hangs up
        context.load_cert_chain(theirs, their_key)
        assert b'"decision":true' in ask()
        with pdp.connect() as plain:
            plain.sendall(LAST)
            assert not plain.recv(65_536).startswith(b"HTTP/1.1 200")


def test_what_must_be_typed(tmp_path: Path) -> None:
    """No address, no keys for the network, and no TLS beyond this machine are errors."""
    keys = private_file(tmp_path / "keys", KEYS)
    environ = {"BROKER_HOME": str(tmp_path / "home")}
    for wished, needed in (
        (Wished(), "--listen"),
        (Wished(listen=("127.0.0.1", 0)), "--keys"),
        (Wished(listen=("0.0.0.0", 0), keys=keys), "--tls-cert"),
    ):
        with pytest.raises(InputError, match=needed):
            serve(wished, environ=environ, stderr=io.StringIO())
    tls = Tls(keys, keys)
    with pytest.raises(ConfigError):
        serve(Wished(listen=("127.0.0.1", 0), keys=keys, tls=tls), environ=environ)
    (tmp_path / "home" / "config").mkdir(parents=True, mode=0o700)
    private_file(tmp_path / "home" / "config" / "broker.toml", "[broker]\nenabled = false\n")
    with pytest.raises(LaunchError):
        serve(Wished(listen=("127.0.0.1", 0), keys=keys), environ=environ)


@pytest.mark.parametrize("typed", ["8181", ":8181", "a:", "a:b", "a:65536", "a:-1"])
def test_an_address_is_host_and_port(typed: str) -> None:
    """What is neither is an error that shows what one looks like."""
    with pytest.raises(InputError, match=r"127\.0\.0\.1:8181"):
        address(typed)
