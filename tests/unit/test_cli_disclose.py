"""`broker receipt disclose`, `verify-disclosure` and `erase`: values beside the signed lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.home import Home
from broker.intent import TypedLine
from broker.session import Session
from tests.console import Console


@pytest.fixture
def sid(broker_home: Path, tmp_path: Path) -> str:
    """The name of a sealed session whose arguments and intent are concealed."""
    folder = tmp_path / "ws"
    folder.mkdir()
    session = Session.open(
        ["paths=src"],
        workspace=folder,
        home=Home.find({"BROKER_HOME": str(broker_home)}),
        intent=TypedLine("look for acme", "argument"),
        conceal=["intent", "arguments"],
    )
    session.decide("read_file", {"path": "src/a.py"})
    session.seal()
    return session.sid


def _handed(broker: Console, *words: str) -> list[dict[str, object]]:
    said = broker("receipt", "disclose", *words)
    assert said.code == 0, said.err
    return [json.loads(line) for line in said.out.splitlines()]


def _file(tmp_path: Path, rows: list[dict[str, object]]) -> str:
    path = tmp_path / "values.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_what_is_handed_on_is_proven(broker: Console, sid: str, tmp_path: Path) -> None:
    """Whoever gets the values proves each against the receipt, and reads it."""
    rows = _handed(broker, sid)
    assert [row["n"] for row in rows] == [1, 3, 3]
    said = broker("receipt", "verify-disclosure", _file(tmp_path, rows), sid)
    assert said.code == 0
    assert "line: look for acme" in said.out
    assert "src/a.py" in said.out
    document = broker("receipt", "verify-disclosure", _file(tmp_path, rows), "--json").json()
    assert document["proven"] is True
    assert {value["field"] for value in document["values"]} == {"line", "args", "subjects"}


def test_a_choice_of_values_is_handed_on(broker: Console, sid: str) -> None:
    """A line and a field narrow what leaves the house; nothing at all is an error."""
    assert len(_handed(broker, sid, "--line", "3")) == 2
    assert len(_handed(broker, sid, "--line", "3", "--field", "args")) == 1
    said = broker("receipt", "disclose", sid, "--line", "2")
    assert said.code == 2
    assert "no such value" in said.err


def test_a_value_for_another_line_is_not_proven(broker: Console, sid: str, tmp_path: Path) -> None:
    """Moved to another line, to a line that is not there, or changed: exit 1 each."""
    (row, *_) = _handed(broker, sid)
    text = str(row["disclosure"])
    for wrong in (
        {**row, "n": 2},
        {**row, "n": 99},
        {**row, "disclosure": text[:-2] + ("A" if text[-2] != "A" else "B") + text[-1]},
    ):
        said = broker("receipt", "verify-disclosure", _file(tmp_path, [wrong]), sid)
        assert said.code == 1, wrong
        assert "not proven" in said.out
        said = broker("receipt", "verify-disclosure", _file(tmp_path, [wrong]), sid, "--json")
        assert said.code == 1
        assert said.json()["proven"] is False


def test_a_file_that_holds_no_values_is_bad_input(
    broker: Console, sid: str, tmp_path: Path
) -> None:
    """An empty file, another form or no JSON is told with its line, and exits with 2."""
    path = tmp_path / "values.jsonl"
    for content in ("", "{}\n", "[1]\n", '{"n":true,"disclosure":"x"}\n', "no json\n"):
        path.write_text(content)
        assert broker("receipt", "verify-disclosure", str(path), sid).code == 2, content


def test_values_are_not_written_over_another_file(
    broker: Console, sid: str, tmp_path: Path
) -> None:
    """`-o` makes a new file for the owner alone and never touches one that is there."""
    path = tmp_path / "out.jsonl"
    assert broker("receipt", "disclose", sid, "-o", str(path)).code == 0
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.read_text()
    assert broker("receipt", "disclose", sid, "-o", str(path)).code == 2
    assert path.read_text() == before


def test_an_erased_value_is_gone_and_the_receipt_verifies(broker: Console, sid: str) -> None:
    """After erasing, only the other values can be handed on, and the receipt stands as before."""
    assert broker("receipt", "erase", sid, "--line", "1", "--reason", "on request").code == 0
    assert [row["n"] for row in _handed(broker, sid)] == [3, 3]
    said = broker("receipt", sid, "--verify")
    assert said.code == 0
    again = broker("receipt", "erase", sid, "--line", "1", "--reason", "on request")
    assert again.code == 2
    assert broker("receipt", "erase", sid).code == 2
