"""Attacks on what is exported: O01 to O06, each mounted on the command that a person runs."""

from __future__ import annotations

import csv
import io
import json
from base64 import b64decode, b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from broker.export import dsse, formats, intoto
from broker.receipt.entry import canonical
from tests.console import Console
from tests.exportkit import EVIL, LINES, SID, home_at, session, signer_of

VERDICTS = {"E_DSSE": "dsse", "E_SUBJECT": "subject", "E_EXPORT": "export"}


@pytest.fixture
def broker(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Console:
    """The `broker` command, run in this process."""
    return Console(capsys, monkeypatch)


@pytest.fixture
def scene(broker: Console, broker_home: Path, tmp_path: Path) -> Path:
    """A folder with a sealed session's exports in every format."""
    home = home_at(broker_home)
    session(home)
    session(home, "other", more=2)
    signer_of(home)
    for name in formats.FORMATS:
        words = ("receipt", "export", SID, "--format", name, "-o", str(tmp_path / name))
        assert broker(*words).code == 0
    return tmp_path


def verdict(broker: Console, path: Path, *words: str) -> tuple[int, str]:
    """Return the exit code of the check, and the reason that it names."""
    said = broker("receipt", "verify-export", str(path), *words, "--json")
    document: Any = said.json()
    return said.code, document["break"]["reason"] if document["break"] else ""


def envelope(path: Path) -> dict[str, Any]:
    """Return a signed envelope, as data."""
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def put(path: Path, document: dict[str, Any]) -> None:
    """Write an envelope."""
    path.write_bytes(canonical(document).encode())


def test_o01_the_payload_of_an_envelope(broker: Console, scene: Path) -> None:
    """O01: with any other payload than the signed one, an envelope is a break."""
    path = scene / "in-toto"
    good = envelope(path)
    assert verdict(broker, path, SID) == (0, "")
    statement = json.loads(b64decode(good["payload"]))
    statement["predicate"]["decisions"]["refused"] = 0
    for payload in (canonical(statement).encode(), b"{}", b"", b64decode(good["payload"]) + b" "):
        put(path, {**good, "payload": b64encode(payload).decode()})
        assert verdict(broker, path, SID) == (1, VERDICTS["E_DSSE"])


def test_o02_the_type_of_an_envelope(broker: Console, scene: Path) -> None:
    """O02: with another type the same bytes mean something else, and are a break."""
    path = scene / "in-toto"
    good = envelope(path)
    for kind in ("text/plain", "application/vnd.in-toto+json ", "", "application/json"):
        put(path, {**good, "payloadType": kind})
        assert verdict(broker, path, SID) == (1, VERDICTS["E_DSSE"])


def test_o02_nothing_else_that_the_key_signs_is_a_statement(
    broker: Console, scene: Path, broker_home: Path
) -> None:
    """O02: a signature over the bare payload, as over a checkpoint's text, makes no envelope."""
    path = scene / "in-toto"
    signer = signer_of(home_at(broker_home))
    payload = b64decode(envelope(path)["payload"])
    bare = b64encode(signer.sign(payload)).decode()
    put(path, {**envelope(path), "signatures": [{"keyid": signer.name, "sig": bare}]})
    assert verdict(broker, path, SID) == (1, VERDICTS["E_DSSE"])


def test_o03_the_digest_of_another_file(broker: Console, scene: Path, broker_home: Path) -> None:
    """O03: a subject of another file is a break, edited by anyone or signed by the key's holder."""
    path = scene / "in-toto"
    home = home_at(broker_home)
    other = sha256((home.sessions / "other" / "receipt.jsonl").read_bytes()).hexdigest()
    statement = json.loads(b64decode(envelope(path)["payload"]))
    statement["subject"][0]["digest"]["sha256"] = other
    forged = canonical(statement).encode()
    put(path, {**envelope(path), "payload": b64encode(forged).decode()})
    assert verdict(broker, path, SID) == (1, VERDICTS["E_DSSE"])
    path.write_bytes(dsse.seal_envelope(forged, intoto.PAYLOAD_TYPE, signer_of(home)))
    assert verdict(broker, path, SID) == (1, VERDICTS["E_SUBJECT"])
    receipt = home.sessions / "other" / "receipt.jsonl"
    assert verdict(broker, path, "--receipt", str(receipt)) == (1, VERDICTS["E_SUBJECT"])


def test_o04_an_edited_cell(broker: Console, scene: Path) -> None:
    """O04: any cell that is edited, the hash included, is seen when the table is joined again."""
    path = scene / "csv"
    rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"), newline="")))
    for number, row in enumerate(rows):
        for column in range(len(row)):
            edited = [list(each) for each in rows]
            edited[number][column] += "x"
            text = io.StringIO(newline="")
            csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\r\n").writerows(edited)
            path.write_text(text.getvalue(), encoding="utf-8", newline="")
            if number in (0, 5) or column == 1:
                assert verdict(broker, path, SID, "--format", "csv") == (1, VERDICTS["E_EXPORT"])


def test_o04_edited_log_records(broker: Console, scene: Path) -> None:
    """O04: an edited log record is seen the same way."""
    path = scene / "otel"
    content = path.read_bytes()
    for old, new in ((b"refused: shell", b"allowed: shell"), (b'"WARN"', b'"INFO"')):
        assert old in content
        path.write_bytes(content.replace(old, new, 1))
        assert verdict(broker, path, SID) == (1, VERDICTS["E_EXPORT"])


def test_o05_nothing_in_an_export_acts(broker: Console, scene: Path) -> None:
    """O05: a formula or an escape that an agent put into a reason does nothing in a table."""
    text = (scene / "csv").read_bytes().decode()
    assert EVIL not in text
    assert all(c.isprintable() or c in "\r\n" for c in text)
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert not [cell for row in rows for cell in row if cell[:1] in {*"=+-@\t\r"}]
    assert any(cell.startswith("'=HYPERLINK") and "\\u001b]0;" in cell for cell in rows[6])
    assert any(cell.startswith("agent: +cmd") for cell in rows[10])
    for name in ("otel", "aat", "agent-receipts", "in-toto"):
        lines = (scene / name).read_bytes().decode().split("\n")[:-1]
        assert all(line.isprintable() for line in lines), name


@pytest.mark.parametrize("gone", range(1, LINES))
def test_o06_a_trail_without_a_record(broker: Console, scene: Path, gone: int) -> None:
    """O06: a trail that lost a record and was linked anew has another count and root."""
    path = scene / "aat"
    records = [json.loads(line) for line in path.read_bytes().splitlines()]
    del records[gone]
    made: list[bytes] = []
    for n, record in enumerate(records):
        record["action_detail"]["receipt"]["line"] = n
        if made:
            record["parent_record_id"] = records[n - 1]["record_id"]
            record["prev_hash"] = sha256(made[-1]).hexdigest()
        made.append(canonical(record).encode())
    path.write_bytes(b"".join(line + b"\n" for line in made))
    assert verdict(broker, path, SID) == (1, VERDICTS["E_EXPORT"])


def test_every_row_is_mounted(shared: Path) -> None:
    """The catalogue's rows about exports are those that are mounted here, with their verdicts."""
    catalogue = json.loads((shared / "attacks/attacks.json").read_text())
    (rows,) = (each for each in catalogue.values() if isinstance(each, list) and len(each) > 100)
    wanted = {row["id"] for row in rows if row["category"] == "export"}
    here = Path(__file__).read_text(encoding="utf-8")
    assert wanted == {name for name in wanted if f"def test_{name.lower()}_" in here}
    assert len(wanted) == 6
