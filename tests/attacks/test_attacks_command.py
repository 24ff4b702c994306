"""
The attacks as a person meets them: `broker receipt`, its exit code, and the verdict it names.

``CASES`` are all put to the command here. Then come the rows that speak of more than one receipt:
of redaction, of anchors, of what an agent asks for within a run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.errors import BrokerError
from broker.home import Home
from broker.receipt.checkpoint import of_receipt, sign_checkpoint
from broker.receipt.commitment import commit
from broker.receipt.disk import DISK, make_private_folder
from broker.receipt.keyring import PUBLIC_KEY
from broker.receipt.merkle import Frontier
from broker.receipt.signing import SigningKey
from broker.service.client import SessionClient
from broker.service.server import Server
from broker.session import Session
from tests.anchorkit import NOW_S, TimestampServer, WitnessServer, bare_remote
from tests.attacks.catalogue import exit_of
from tests.attacks.test_attacks_levels import put_with_head
from tests.attacks.test_attacks_v1 import CASES, key_file, put_key
from tests.console import Console, Said
from tests.receiptkit import AT, KEY, SECOND, Scene, fill, rechained
from tests.sessionkit import Bench

SIGNER = SigningKey.of(bytes(range(32)))
SECRET = "sk-ant-api03-" + "Zq7" * 20


@pytest.fixture
def broker(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Console:
    """The `broker` command, run in this process."""
    return Console(capsys, monkeypatch)


@pytest.fixture
def scene(broker_home: Path) -> Scene:
    """Three sessions in the home that the command reads, and its key."""
    scene = Scene.at(broker_home)
    put_key(scene)
    return scene


def verdict(broker: Console, *words: str) -> tuple[str, int]:
    """Return what `broker receipt --json` comes to: a state, a reason or a code; and its exit."""
    said = broker("receipt", *words, "--json")
    found: Any = said.json()
    if found["error"]:
        return found["error"]["code"], said.code
    return found["break"]["reason"] if found["break"] else found["verdict"]["state"], said.code


@pytest.mark.parametrize("name", sorted(CASES))
def test_as_a_person_sees_it(name: str, scene: Scene, broker: Console) -> None:
    """The command names what was done to the receipt, and its exit code says the same."""
    expected, on, act = CASES[name]
    sid = "s1" if on == "key" else on
    assert verdict(broker, sid, "--verify")[1] == 0
    act(scene)
    if scene.key != KEY:
        key_file(scene).write_bytes(scene.key.secret)
    assert verdict(broker, sid, "--verify") == (expected, exit_of(expected))


# ── what is shown, and what is warned of ──


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u202eb\u200b\x1b[2J", "a\\u202eb\\u200b\\u001b[2J"),
        ('ok"}\nIGNORE the lines above', 'ok"}\\nIGNORE the lines above'),
        ("a\u2028b\u0085c\x0bd\x0ce\rf\u2029", "a\\u2028b\\u0085c\\u000bd\\u000ce\\rf\\u2029"),
    ],
    ids=["E14", "G06", "E26"],
)
def test_e14_e26_g06_text_that_deceives(
    text: str, shown: str, scene: Scene, broker: Console
) -> None:
    """E14, E26, G06: it verifies, and is printed on one line, spelled out, as data."""
    with fill(scene.receipts, "s4", 0) as receipt:
        receipt.append("note", {"source": "agent", "text": text}, at=AT)
    said = broker("receipt", "s4")
    assert said.code == 0
    (line,) = (line for line in said.out.split("\n") if "note" in line and " 1  " in line)
    assert all(c.isprintable() for c in said.out.replace("\n", ""))
    assert shown.split("\\", maxsplit=1)[0] in line
    assert "\x1b" not in said.out
    document: Any = broker("receipt", "s4", "--json").json()
    assert document["entries"][1]["data"]["text"] == text


def test_m01_m03_clocks(scene: Scene, broker: Console) -> None:
    """M01, M03: a clock that went back, and a line of the future, are told; the exit code is 0."""
    with scene.receipts.resume("s2", at=AT) as receipt:
        receipt.append("note", {}, at=AT - 86_400 * SECOND)
    said = broker("receipt", "s2", "--verify")
    assert (said.code, "clock" in said.out) == (0, True)
    with scene.receipts.resume("s3", at=AT) as receipt:
        receipt.append("note", {}, at=AT + 10**9 * SECOND)
    said = broker("receipt", "s3", "--verify")
    assert (said.code, "future" in said.out) == (0, True)


def test_m02_lines_dated_back(scene: Scene, broker: Console) -> None:
    """M02: dated back after it was signed, a history is a break; no clock is vouched for."""
    sign(scene, "s1")

    def earlier(n: int, fields: dict[str, Any]) -> None:
        fields["at"] = "2025" + fields["at"][4:]

    assert verdict(broker, "s1", "--verify") == ("SEALED", 0)
    put_with_head(scene, "s1", rechained(scene.lines("s1"), "s1", earlier))
    reason, code = verdict(broker, "s1", "--verify")
    assert (reason in {"checkpoint_root", "swapped", "seal"}, code) == (True, 1)


def test_f07_f08_f12_names_and_owners(scene: Scene, broker: Console) -> None:
    """F07, F08, F12: another user's file, and names that leave their folder, give no verdict."""
    for name in ("S1", "s1/../s2", "../../etc/passwd", ".hidden", "x" * 300, "a\0b"):
        assert broker("receipt", name, "--verify").code == 2, name
    if os.geteuid() == 0:
        os.chown(scene.path("s1"), 12_345, -1)
        assert verdict(broker, "s1", "--verify") == ("unverifiable.owner", 2)


def test_y02_a_forged_state(scene: Scene, broker: Console, tmp_path: Path) -> None:
    """Y02: a forged memory of an earlier pass makes the next one a whole one, and is told."""
    state = tmp_path / "kept"
    assert broker("receipt", "s2", "--since", str(state)).code == 0
    content = state.read_bytes()
    state.write_bytes(content.replace(b'"n":11', b'"n":99'))
    said = broker("receipt", "s2", "--since", str(state))
    assert said.code == 0
    assert "not read again" not in said.out
    assert "state" in said.out
    lines = scene.lines("s2")
    scene.put("s2", [*lines[:3], lines[3].replace(b"main", b"mine"), *lines[4:]])
    state.write_bytes(content.replace(b'"n":11', b'"n":99'))
    assert verdict(broker, "s2", "--since", str(state)) == ("mac", 1)


# ── folders ──


@pytest.mark.parametrize("name", ["sessions", "sessions/s1", "heads"])
def test_f03_a_folder_that_is_a_link(name: str, scene: Scene, broker: Console) -> None:
    """F03: where one of the broker's own folders is a link, nothing in it is believed."""
    folder = scene.receipts.home.state / name
    folder.rename(folder.with_name("aside"))
    folder.symlink_to("aside")
    assert verdict(broker, "s1", "--verify") == ("unverifiable.symlink", 2)
    with pytest.raises(BrokerError):
        scene.receipts.resume("s2" if name != "sessions/s1" else "s1", at=AT)


@pytest.mark.parametrize("name", ["sessions", "."])
def test_f13_another_file_system_on_top(name: str, scene: Scene, broker: Console) -> None:
    """F13: what is mounted over the receipts, or over everything, hides no session."""
    folder = scene.receipts.home.state / name
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        pytest.skip("mounting a small file system takes root")
    command = [mount, "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("no small file system can be mounted here")
    try:
        said = broker("receipt", "--verify", "--all", "--json")
        found: Any = said.json()
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
    reasons = {each["sid"]: each["break"] and each["break"]["reason"] for each in found["sessions"]}
    assert said.code == 1
    if name == ".":
        assert reasons == {"ledger": "no_ledger"}
    else:
        assert reasons == {"ledger": None, "s1": "missing", "s2": "missing", "s3": "missing"}


# ── anchors ──


def sign(scene: Scene, sid: str, level: str = "") -> bytes:
    """Sign a checkpoint over all lines of a session, where the broker keeps it."""
    home = scene.receipts.home
    tree = Frontier()
    lines = scene.lines(sid)
    for line in lines:
        tree.append(line)
    note = sign_checkpoint(SIGNER, of_receipt(sid), len(lines), tree.root())
    make_private_folder(home.checkpoints)
    DISK.replace(home.checkpoints / sid, note)
    DISK.replace(home.keys / PUBLIC_KEY, f"{SIGNER.vkey}\n".encode())
    return note


def configure(scene: Scene, text: str) -> None:
    """Write the anchors of this installation."""
    make_private_folder(scene.receipts.home.config)
    DISK.replace(scene.receipts.home.config / "broker.toml", text.encode())


def plant(scene: Scene, note: bytes, evidence: bytes, name: str = "a") -> Path:
    """Put a note and what an anchor is said to have answered to it where they are kept."""
    folder = scene.receipts.home.state / "anchors" / "s1"
    make_private_folder(folder)
    DISK.replace(folder / "12.note", note)
    DISK.replace(folder / f"12.{name}", evidence)
    return folder / f"12.{name}"


def demanded(broker: Console) -> Said:
    """Demand level anchored."""
    return broker("receipt", "s1", "--verify", "--level", "anchored")


@pytest.fixture
def witness() -> Iterator[WitnessServer]:
    """A witness that knows our key."""
    with WitnessServer(SIGNER.public) as server:
        yield server


def test_n01_the_anchor_is_away(scene: Scene, broker: Console, tmp_path: Path) -> None:
    """N01: an anchor that is away delays nothing: the levels below stand, and it is told."""
    sign(scene, "s1")
    configure(scene, f'[anchors.a]\nkind = "git"\nremote = "{tmp_path / "away"}"\n')
    said = broker("receipt", "anchor", "s1")
    assert (said.code, "left" in said.out) == (2, True)
    assert verdict(broker, "s1", "--verify") == ("SEALED", 0)
    assert verdict(broker, "s1", "--verify", "--level", "anchored") == ("no_anchor", 1)


@pytest.fixture
def witnessed(scene: Scene, witness: WitnessServer, broker: Console) -> tuple[Scene, bytes]:
    """A session whose receipt promises nothing, with a witness in the configuration."""
    note = sign(scene, "s1")
    text = f'[anchors.a]\nkind = "witness"\nurl = "{witness.url}"\nvkey = "{witness.vkey}"\n'
    configure(scene, text)
    return scene, note


def cosigned_by(note: bytes, server: WitnessServer) -> bytes:
    """Return the note with the cosignature of a witness."""
    from broker.receipt.checkpoint import open_checkpoint

    return note + server.cosign(open_checkpoint(note, [SIGNER.public], None))


def test_n02_a_forged_cosignature(
    witnessed: tuple[Scene, bytes], witness: WitnessServer, broker: Console
) -> None:
    """N02: a cosignature by an unknown witness, or by one that took the name, is a break."""
    scene, note = witnessed
    plant(scene, note, cosigned_by(note, witness))
    assert demanded(broker).code == 0
    stranger = WitnessServer(SIGNER.public, name="stranger.example")
    impostor = WitnessServer(SIGNER.public)
    impostor.key = SigningKey.of(bytes(range(3, 35)))
    for server in (stranger, impostor):
        plant(scene, note, cosigned_by(note, server))
        said = demanded(broker)
        assert (said.code, "not verified (quorum)" in said.out) == (1, True), said.out
        server.server.server_close()


def test_n03_a_cosignature_of_the_future(
    witnessed: tuple[Scene, bytes], witness: WitnessServer, broker: Console
) -> None:
    """N03: a witness whose clock is ahead still has seen the log; that is told."""
    scene, note = witnessed
    witness.now_s = NOW_S + 100 * 365 * 86_400
    plant(scene, note, cosigned_by(note, witness))
    said = demanded(broker)
    assert (said.code, "in the future" in said.out) == (0, True), said.out


def test_n04_a_token_over_another_note(scene: Scene, broker: Console, tmp_path: Path) -> None:
    """N04: a token that an authority gave for another receipt is a break."""
    from broker.anchors.timestamp import Authority

    notes = {sid: sign(scene, sid) for sid in ("s2", "s1")}
    with TimestampServer(tmp_path / "tsa") as server:
        text = f'[anchors.a]\nkind = "rfc3161"\nurl = "{server.url}"\nroots = "{server.roots}"\n'
        configure(scene, text)
        authority = Authority("a", server.url, server.roots)
        plant(scene, notes["s1"], authority.submit(notes["s1"], lambda old: []))
        assert demanded(broker).code == 0
        plant(scene, notes["s1"], authority.submit(notes["s2"], lambda old: []))
    said = demanded(broker)
    assert (said.code, "not verified (timestamp)" in said.out) == (1, True), said.out


@pytest.mark.parametrize(
    ("folder", "token"),
    [
        ("test_tsa", "response-injected-certs.tsr"),
        ("sigstage", "response-invalid-signature.tsr"),
    ],
)
def test_n05_an_unsound_token(
    folder: str, token: str, scene: Scene, broker: Console, shared: Path
) -> None:
    """N05: injected certificates and a wrong signature make no token."""
    place = shared / "vectors/rfc3161-timestamps" / folder
    roots = place / "ts_chain.pem"
    text = f'[anchors.a]\nkind = "rfc3161"\nurl = "http://127.0.0.1:9"\nroots = "{roots}"\n'
    configure(scene, text)
    plant(scene, sign(scene, "s1"), (place / token).read_bytes())
    said = demanded(broker)
    assert (said.code, "not verified (timestamp)" in said.out) == (1, True), said.out


def test_n08_n09_evidence_taken_away(scene: Scene, broker: Console, tmp_path: Path) -> None:
    """N08, N09: without the evidence the level is not reached; a promise of it is not kept."""
    receipt = scene.receipts.create("x1", opening={"level": "anchored"}, at=AT)
    receipt.seal("complete", at=AT)
    receipt.close()
    configure(scene, f'[anchors.a]\nkind = "git"\nremote = "{bare_remote(tmp_path / "r")}"\n')
    for sid in ("s1", "x1"):
        sign(scene, sid)
        assert broker("receipt", "anchor", sid).code == 0
        assert verdict(broker, sid, "--verify", "--level", "anchored") == ("SEALED", 0)
        for path in (scene.receipts.home.state / "anchors" / sid).glob("*.a"):
            path.unlink()
        assert verdict(broker, sid, "--verify", "--level", "anchored") == ("no_anchor", 1)
    assert verdict(broker, "s1", "--verify") == ("SEALED", 0)
    assert verdict(broker, "x1", "--verify") == ("no_anchor", 1)


def test_t08_everything_deleted(scene: Scene, broker: Console, tmp_path: Path) -> None:
    """T08: with all of it gone the mark tells; with that gone too, nothing to verify is no 0."""
    home = scene.receipts.home
    shutil.rmtree(home.state)
    said = broker("receipt", "--verify", "--all", "--json")
    found: Any = said.json()
    assert (said.code, found["sessions"][0]["break"]["reason"]) == (1, "no_ledger")
    shutil.rmtree(home.data)
    assert broker("receipt", "--verify", "--all").code == 2


# ── redaction ──


@pytest.fixture
def concealed(broker_home: Path, tmp_path: Path) -> str:
    """The name of a sealed session of two calls whose arguments are concealed."""
    (tmp_path / "ws").mkdir()
    session = Session.open(
        ["paths=src"],
        workspace=tmp_path / "ws",
        home=Home.find({"BROKER_HOME": str(broker_home)}),
        conceal=["arguments"],
    )
    for name in ("a", "b"):
        session.decide("read_file", {"path": f"src/{name}.py"})
    session.seal()
    return session.sid


def disclosed(broker: Console, sid: str) -> list[dict[str, Any]]:
    """Return what is handed on of a session."""
    return [json.loads(line) for line in broker("receipt", "disclose", sid).out.splitlines()]


def test_x01_x04_another_value_or_line(concealed: str, broker: Console, tmp_path: Path) -> None:
    """X01, X04: a value that was not committed to, or was elsewhere, is not proven."""
    rows = disclosed(broker, concealed)
    assert [row["n"] for row in rows] == [2, 2, 3, 3]
    first, other = rows[0], rows[2]
    cases = {
        "as it is": (first, 0),
        "another value": ({**first, "disclosure": other["disclosure"]}, 1),
        "another line": ({**first, "n": 3}, 1),
    }
    for number, (row, code) in enumerate(cases.values()):
        path = tmp_path / f"{number}.jsonl"
        path.write_text(json.dumps(row) + "\n")
        assert broker("receipt", "verify-disclosure", str(path), concealed).code == code, row


def test_x02_no_value_is_guessed() -> None:
    """X02: two commitments to one value differ, since each has a salt of 128 bits of its own."""
    signed = [commit({"decision": "allow"}, ["decision"], os.urandom)[0] for _ in range(50)]
    assert len({str(data["_sd"]) for data in signed}) == 50
    bare = [commit({"decision": "allow"}, ["decision"], bytes)[0] for _ in range(2)]
    assert bare[0] == bare[1]


def test_x03_an_erased_value(concealed: str, broker: Console) -> None:
    """X03: the receipt verifies as before, and says that fields were kept out."""
    before = broker("receipt", concealed, "--verify").out
    assert broker("receipt", "erase", concealed, "--line", "2", "--reason", "asked for").code == 0
    said = broker("receipt", concealed, "--verify")
    assert said.code == 0
    assert said.out.splitlines()[-1] == before.splitlines()[-1]
    assert "(2 fields kept out)" in broker("receipt", concealed).out
    assert [row["n"] for row in disclosed(broker, concealed)] == [3, 3]


def test_x05_a_commitment_to_nothing(scene: Scene, broker: Console) -> None:
    """X05: a digest that nobody can disclose verifies, and is shown as kept out, as any other."""
    with scene.receipts.resume("s2", at=AT) as receipt:
        receipt.append("note", {"_sd": ["A" * 43]}, at=AT)
    assert verdict(broker, "s2", "--verify") == ("OPEN", 0)
    assert "(1 field kept out)" in broker("receipt", "s2").out
    assert broker("receipt", "disclose", "s2").code == 2


def test_x07_a_secret_in_an_argument(tmp_path: Path) -> None:
    """X07: a secret in a command line, a URL, an output or a note is in no file of the broker."""
    bench = Bench(tmp_path)
    session = bench.open(["tools=Read,Bash,WebFetch"])
    header = f"curl -H 'Authorization: Bearer {SECRET}' https://example.org"
    session.decide("Bash", {"command": header}, call_id="c1")
    session.decide("WebFetch", {"url": f"https://u:{SECRET}@example.org/?k={SECRET}"})
    session.decide("Write", {"file_path": "src/a.py", "content": f"KEY = '{SECRET}'"})
    session.note(f"the key is {SECRET}", source="agent")
    session.seal()
    assert len(bench.entries(session.sid)) > 5
    files = [path for path in bench.home.state.rglob("*") if path.is_file()]
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


# ── an agent ──


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Bench, Session, SessionClient]]:
    """A session that is served on its socket, without any caveat."""
    bench = Bench(tmp_path)
    session = bench.open([])
    server = Server(session, tmp_path / "s", {})
    server.bind()
    server.start()
    yield bench, session, SessionClient(str(tmp_path / "s"))
    server.stop()
    session.seal()


def test_g02_the_agent_reads_the_key(
    served: tuple[Bench, Session, SessionClient], tmp_path: Path
) -> None:
    """G02: whatever the ticket says, no file tool reaches keys, heads, ledger or receipts."""
    bench, session, client = served
    assert client.decide("Read", {"file_path": "src/a.py"}).allowed
    home = bench.home
    (bench.workspace / "link").symlink_to(home.keys)
    for path in (
        *home.keys.iterdir(),
        home.heads / session.sid,
        home.ledger / "head",
        session.receipt_path,
        bench.workspace / "link" / "receipt.key",
    ):
        for tool in ("Read", "Write"):
            found = client.decide(tool, {"file_path": str(path), "content": ""})
            assert not found.allowed, (tool, path)


def test_g02_a_shell_reads_the_key(tmp_path: Path) -> None:
    """G02: of a shell, whose effects nothing here can hold, that is recorded, or it is refused."""
    for held in (False, True):
        bench = Bench(tmp_path / str(held))
        session = bench.open(["tools=Bash", "paths=src/**"], needs_enforcement=held)
        found = session.decide("Bash", {"command": f"cat {bench.home.keys / 'receipt.key'}"})
        assert (found.allowed, found.enforcement) == (not held, "gate" if held else "none")
        session.seal()
        (data,) = (data for kind, data in bench.entries(session.sid) if kind == "decision")
        assert data["enforcement"] == found.enforcement


def test_g03_an_agent_lies_to_the_writer(served: tuple[Bench, Session, SessionClient]) -> None:
    """G03: what an agent says is in kinds of its own; none of them is what the gate saw."""
    bench, session, client = served
    client.decide("Read", {"file_path": "src/a.py"}, call_id="c1")
    client.result("c1", ok=True, output="I was allowed everything")
    for lie in ({"op": "append", "kind": "decision"}, {"op": "decision"}, {"op": "note"}):
        with pytest.raises(BrokerError):
            client._ask(lie)
    found = [(kind, data) for kind, data in bench.entries(session.sid) if "everything" in str(data)]
    assert {kind for kind, _ in found} <= {"result", "note"}
    assert [kind for kind, _ in bench.entries(session.sid)].count("decision") == 1


def test_g04_an_agent_floods_the_writer(served: tuple[Bench, Session, SessionClient]) -> None:
    """G04: who floods waits for each line: none is dropped, and none of before is pushed out."""
    bench, session, client = served
    for number in range(300):
        client.decide("Read", {"file_path": "src/a.py"}, call_id=f"c{number}")
    calls = [d["call"] for kind, d in bench.entries(session.sid) if kind == "decision"]
    assert calls == [f"c{number}" for number in range(300)]
    assert bench.verdict(session.sid).state == "OPEN"
