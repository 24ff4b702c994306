"""A batch answers every row, in order, whatever is in it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.cli import batch
from broker.cli.batch import KEYS, Batch, lines_of, read_row
from broker.home import Home

READ = {"scope": ["paths=src/**"], "tool": "read_file", "arguments": {"path": "src/a"}}


@pytest.fixture
def made(tmp_path: Path, broker_home: Path) -> Batch:
    """A batch whose rows play in an empty workspace."""
    return Batch(Home.find({"BROKER_HOME": str(broker_home)}), str(tmp_path))


def ask(made: Batch, **row: object) -> dict[str, object]:
    """Return the answer to one row."""
    (answer,) = made.answers([json.dumps(row).encode()])
    return answer


def test_three_keys(made: Batch) -> None:
    """An answer has three keys, and the row's name when it has one."""
    assert ask(made, **READ) == {"decision": "allow", "caveat": None, "reason": None}
    refused = ask(made, **READ | {"arguments": {"path": "b"}, "id": 7})
    assert list(refused) == ["decision", "caveat", "reason", "id"]
    assert refused["caveat"] == "paths"
    assert refused["id"] == 7


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({}, "no `scope`"),
        ({"scope": "calls=1"}, "`scope` is a list"),
        ({"scope": None}, "`scope` is a list"),
        ({"scope": [7]}, "is text"),
        ({"scope": ["path=src"]}, "no such key `path`, at character 0 of `path=src`"),
        ({"scope": ["@nobody"]}, "no policy is called `nobody`"),
        ({"scope": [""]}, "empty"),
        ({"scope": [], "args": {}}, "no such key in a row: `args`; did you mean `arguments`?"),
        ({"scope": [], "now": None}, "did you mean `at`?"),
        ({"scope": [], "spend": 3}, "did you mean `spent`?"),
        ({"scope": [], "Scope": []}, "did you mean `scope`?"),
        ({"scope": [], "At": None}, "did you mean `at`?"),
        ({"scope": [], "minted": 5}, "did you mean `minted_at`?"),
        ({"scope": [], "at": 5}, "`at` is an instant"),
        ({"scope": [], "at": "noon"}, "`at`: "),
        ({"scope": [], "minted_at": 5}, "`minted_at` is an instant"),
        ({"scope": [], "spent": True}, "`spent` is a whole number"),
        ({"scope": [], "spent": 1.5}, "`spent` is a whole number"),
        ({"scope": [], "workspace": 1}, "`workspace` is text"),
        ({"scope": [], "cwd": []}, "`cwd` is text"),
        ({"scope": [], "server": 1}, "`server` is text"),
        ({"scope": [], "subject": "main"}, "`subject` is an object"),
        ({"scope": [], "server": "a", "subject": {"mcp_server": "b"}}, "two servers"),
        ({"scope": [], "id": []}, "`id` is text"),
    ],
)
def test_not_understood(made: Batch, row: dict[str, object], said: str) -> None:
    """A row that is not understood is an error that says what is wrong with it."""
    answer = ask(made, **row)
    assert answer["decision"] == "error"
    assert said in str(answer["reason"])
    assert made.errors == made.rows == 1


def test_what_a_row_carries_is_handed_back(made: Batch) -> None:
    """A key that asks nothing changes no answer, and is named in it."""
    more = {"expect": "allow", "kind": "path", "n": 3, "platform": "any", "\u00e9": None, "id": 1}
    assert ask(made, **READ | more) == {
        "decision": "allow",
        "caveat": None,
        "reason": None,
        "id": 1,
        "ignored": ["expect", "kind", "n", "platform", "\u00e9"],
    }
    assert ask(made, note="x")["ignored"] == ["note"]


def test_no_minting_instant_is_none_given(made: Batch) -> None:
    """Null says no more than a key that is not there."""
    row = {"scope": ["until=10m"], "minted_at": None, "at": "2026-01-01T12:00:00Z"}
    assert ask(made, **READ | row)["decision"] == "allow"


def test_answers_keep_the_order_of_rows(made: Batch) -> None:
    """The n-th answer belongs to the n-th row, whatever stands between."""
    rows = [READ | {"id": n} if n % 3 else {"id": n} for n in range(60)]
    answers = made.answers(json.dumps(row).encode() for row in rows)
    assert [answer["id"] for answer in answers] == list(range(60))


def test_a_workspace_may_be_built_anew(made: Batch, tmp_path: Path) -> None:
    """Each row looks at the folder that has the workspace's name then."""
    place = tmp_path / "again"
    row = READ | {"workspace": str(place)}
    assert ask(made, **row)["decision"] == "error"
    for name in ("one", "two"):
        (tmp_path / name / "src").mkdir(parents=True)
        place.unlink(missing_ok=True)
        place.symlink_to(tmp_path / name)
        assert ask(made, **row)["decision"] == "allow"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"\xff", "not UTF-8 at byte 0"),
        (b"{", "not JSON"),
        (b"[]", "one JSON object"),
        (b"null", "one JSON object"),
        (b'{"scope":[],"scope":["calls=0"]}', "given twice"),
        (b'{"scope":[],"arguments":' + b"[" * 100_000, "nested too deeply"),
        (None, "at most 67108864 bytes"),
    ],
)
def test_unreadable(made: Batch, line: bytes | None, said: str) -> None:
    """A line that cannot be read is an error, and the rows after it are answered."""
    first, second = made.answers([line, json.dumps(READ).encode()])
    assert first["decision"] == "error"
    assert said in str(first["reason"])
    assert second["decision"] == "allow"


def test_blank_lines_are_no_rows(made: Batch) -> None:
    """Blank lines get no answer, so a file may end with one."""
    assert list(made.answers([b"\n", b" \r\n", b""])) == []


@pytest.mark.parametrize(
    ("row", "caveat"),
    [
        ({"scope": ["until=10m"], "at": None}, "until"),
        ({"scope": ["until=2026-01-01T12:00:00Z"], "at": "2026-01-01T12:00:00Z"}, "until"),
        ({"scope": ["until=2026-01-01T12:00:00Z"], "at": "2026-01-01T11:59:59.999999999Z"}, None),
        (
            {
                "scope": ["until=10m"],
                "minted_at": "2026-01-01T12:00:00Z",
                "at": "2026-01-01T12:09:59Z",
            },
            None,
        ),
        (
            {
                "scope": ["until=10m"],
                "minted_at": "2026-01-01T12:00:00Z",
                "at": "2026-01-01T12:10:00Z",
            },
            "until",
        ),
        ({"scope": ["until=1s"]}, None),
        ({"scope": ["until=2001-01-01T00:00:00Z"]}, "until"),
        ({"scope": ["calls=2"], "spent": 1}, None),
        ({"scope": ["calls=2"], "spent": 2}, "calls"),
        ({"scope": ["calls=2"], "spent": None}, "calls"),
        ({"scope": ["calls=2"], "spent": -1}, "calls"),
        ({"scope": ["paths=src"], "spent": None, "at": None}, None),
        ({"scope": ["tools=read_file"], "tool": None}, "tools"),
        ({"scope": ["tools=read_file"], "tool": ["read_file"]}, "tools"),
        ({"scope": [], "tool": None}, "call"),
        ({"scope": [], "arguments": "path"}, "call"),
        ({"scope": [], "tool": "read_file", "arguments": {}}, None),
    ],
)
def test_what_an_absence_means(made: Batch, row: dict[str, object], caveat: str | None) -> None:
    """An absent or unreadable instant, count, tool or argument means what the help says."""
    answer = ask(made, **READ | row)
    assert answer["caveat"] == caveat
    assert answer["decision"] == ("allow" if caveat is None else "refuse")


def test_a_past_deadline_with_a_minting_instant(made: Batch) -> None:
    """A deadline that was over when the ticket was minted is a mistake in the scope."""
    answer = ask(
        made, scope=["until=2026-01-01T12:00:00Z"], minted_at="2026-01-01T12:00:01Z", tool="x"
    )
    assert (answer["decision"], answer["caveat"]) == ("error", "scope")


def test_the_server_is_a_fact_of_the_caller(made: Batch) -> None:
    """The server settles whose tool is called, from either key, and other facts do not."""
    row = {"scope": ["tools=mcp__evil__*"], "tool": "mcp__evil__foo__tool"}
    other = {"agent": "x", "parent": "main", "mcp_tool": "y"}
    assert ask(made, **row, server="evil")["decision"] == "allow"
    assert ask(made, **row, server="evil__foo")["decision"] == "refuse"
    assert ask(made, **row, subject={"mcp_server": "evil", **other})["decision"] == "allow"
    assert ask(made, **row, subject={"mcp_server": "evil__foo"})["decision"] == "refuse"


def test_workspaces(made: Batch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row plays in its own workspace, a relative one below the current folder."""
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "src").symlink_to("/etc")
    monkeypatch.chdir(tmp_path)
    row = {"scope": ["paths=src"], "tool": "read_file", "arguments": {"path": "src/hosts"}}
    assert ask(made, **row)["decision"] == "allow"
    assert ask(made, **row, workspace="one")["decision"] == "refuse"
    assert ask(made, **row, workspace=str(tmp_path / "one"))["decision"] == "refuse"
    assert ask(made, **row, cwd="one")["decision"] == "refuse"


def test_a_workspace_brings_its_catalogs(made: Batch, tmp_path: Path) -> None:
    """A workspace with catalogs of its own gets them, and a broken one is that row's error."""
    folder = tmp_path / "own" / ".broker" / "catalogs"
    folder.mkdir(parents=True)
    (folder / "bad.toml").write_text("nonsense = [")
    answer = ask(made, **READ, workspace=str(tmp_path / "own"))
    assert answer["decision"] == "error"
    assert "bad.toml:1" in str(answer["reason"])
    assert ask(made, **READ)["decision"] == "allow"


def test_a_changed_tree_is_seen(made: Batch, tmp_path: Path) -> None:
    """The file system is looked at for every row; only scopes are remembered."""
    assert ask(made, **READ)["decision"] == "allow"
    (tmp_path / "src").symlink_to("/etc")
    assert ask(made, **READ)["decision"] == "refuse"


def test_what_nobody_foresaw(made: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the broker is an error of that row, with its name, never an answer."""

    def broken(document: object, workspace: str) -> object:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(batch, "read_row", broken)
    answer = ask(made, **READ, id="a")
    assert answer["decision"] == "error"
    assert answer["id"] == "a"
    assert "ZeroDivisionError" in str(answer["reason"])


def test_long_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line at the limit is read, a longer one is passed over whole."""
    monkeypatch.setattr(batch, "MAX_REQUEST_BYTES", 4)
    stream = io.BytesIO(b"1234\n12345\n" + b"x" * (3 * 2**20) + b"\n1\n12345")
    assert list(lines_of(stream)) == [b"1234\n", None, None, b"1\n", None]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(categories=None), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.sampled_from(sorted(KEYS)), json_values)
    | st.builds(lambda a, t: READ | {"arguments": a, "tool": t}, json_values, json_values)
)
def test_any_row_gets_an_answer(made: Batch, row: dict[str, object]) -> None:
    """Whatever JSON stands in a row, the answer is allow, refuse or error, and prints."""
    answer = ask(made, **row)
    assert answer["decision"] in {"allow", "refuse", "error"}
    assert (answer["decision"] == "allow") is (answer["reason"] is None)
    assert "could not decide" not in str(answer["reason"])
    assert json.loads(json.dumps(answer)) == answer


def test_now_is_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an instant the clock is read, once for minting and judging alike."""
    monkeypatch.setattr(batch.time, "time_ns", lambda: 42)
    row = read_row({"scope": []}, "/ws")
    assert (row.at, row.minted_at, row.past_ok) == (42, 42, True)
    assert read_row({"scope": [], "at": None}, "/ws").minted_at == 42


def test_a_row_may_give_the_typed_line(made: Batch) -> None:
    """`intent` is what a person typed, for conditions that look into it."""
    row = {"scope": ["tools=pay(to in intent)"], "tool": "pay", "arguments": {"to": "A"}}
    lines = [json.dumps({**row, "intent": said}).encode() for said in ("pay A", "pay B", 5)]
    answers = list(made.answers([*lines, json.dumps(row).encode()]))
    assert [a["decision"] for a in answers] == ["allow", "refuse", "error", "error"]
