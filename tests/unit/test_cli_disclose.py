"""`broker receipt disclose`, `verify-disclosure` and `erase`: values beside the signed lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.home import Home
from broker.intent import TypedLine
from broker.session import Session
from broker.sessions.conceal import Disclosures
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
    assert "1 value erased by a person: on request" in said.out
    again = broker("receipt", "erase", sid, "--line", "1", "--reason", "on request")
    assert again.code == 2
    assert broker("receipt", "erase", sid).code == 2


def test_what_is_held_is_shown_and_what_is_not_is_counted(broker: Console, sid: str) -> None:
    """Values stand in the story and beside the data; an erased one is kept out of both."""
    story = broker("receipt", sid).out
    assert "intent     look for acme" in story
    assert "read_file  src/a.py" in story
    assert "kept out" not in story
    rows = broker("receipt", sid, "--json").json()["entries"]
    assert "look for acme" not in json.dumps(rows[1]["data"])
    assert rows[1]["disclosed"] == {"line": "look for acme"}
    assert [row.get("kept_out") for row in rows[:4]] == [None, 0, None, 0]
    broker("receipt", "erase", sid, "--field", "subjects", "--reason", "asked for")
    story = broker("receipt", sid).out
    assert "src/a.py" not in story
    assert "(1 field kept out)" in story
    rows = broker("receipt", sid, "--json").json()["entries"]
    assert (set(rows[3]["disclosed"]), rows[3]["kept_out"]) == ({"args"}, 1)
    (row,) = broker("sessions", "--json").json()
    assert row["intent"] == "look for acme"
    broker("receipt", "erase", sid, "--line", "1", "--reason", "asked for")
    assert broker("sessions", "--json").json()[0]["intent"] == "(kept out)"


def test_x03_the_ledger_says_how_many_values_were_erased(broker: Console, sid: str) -> None:
    """X03: after an erasure the receipt verifies, and every verdict counts it and says why."""
    assert broker("receipt", "erase", sid, "--reason", "law \x1b[2J").code == 0
    said = broker("receipt", sid, "--verify", "--json")
    assert said.code == 0
    assert said.json()["verdict"]["erased"] == 3
    everything = broker("receipt", "--verify", "--all")
    assert everything.code == 0
    assert r"3 values erased by a person: law \x1b[2J" in everything.out
    assert broker("receipt", sid).out.count("kept out") == 2


def test_nothing_is_erased_that_is_not_on_record(
    broker: Console, sid: str, broker_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows come first: where one cannot be written, or no reason is given, all values stay."""
    assert broker("receipt", "erase", sid, "--reason", " ").code == 2
    assert len(_handed(broker, sid)) == 3
    with monkeypatch.context() as patch:
        patch.setattr(Disclosures, "erase", _killed)
        assert broker("receipt", "erase", sid, "--line", "1", "--reason", "first").code != 0
    assert broker("receipt", "erase", sid, "--line", "1", "--reason", "second").code == 0
    said = broker("receipt", sid, "--verify").out
    assert "1 value erased by a person: first" in said
    head = Home.find({"BROKER_HOME": str(broker_home)}).ledger / "head"
    head.unlink()
    assert broker("receipt", "erase", sid, "--reason", "third").code != 0


def _killed(*_: object) -> int:
    raise KeyboardInterrupt
