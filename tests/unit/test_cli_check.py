"""`broker check` says whether a call is allowed, and who decided it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.calls import ALLOW, Decision, Refusal
from broker.service.client import SessionClient
from tests.console import Console


@pytest.fixture(autouse=True)
def _stand_in_a_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_allowed(broker: Console) -> None:
    """An allowed call is one line on stdout, and 0."""
    said = broker("check", "read_file", "path=src/a.py", "--scope", "paths=src/**")
    assert (said.code, said.out, said.err) == (0, "allowed\n", "")


def test_refused(broker: Console) -> None:
    """A refused call is one line on stdout that names the caveat and the value, and 1."""
    said = broker("check", "read_file", "path=b.py", "--scope", "paths=src/**")
    assert said.code == 1
    assert said.out.startswith("refused (paths): reading `b.py` is not within paths: src/**")
    assert said.out.count("\n") == 1
    assert said.err == ""


def test_json(broker: Console) -> None:
    """The answer in JSON is one document with the decision in it, for errors too."""
    scope = ("--scope", "tools=a", "--json")
    assert broker("check", "a", *scope).json() == {
        "decision": "allow",
        "caveat": None,
        "value": None,
        "reason": None,
        "enforcement": "gate",
    }
    assert broker("check", "b", *scope).json()["caveat"] == "tools"
    wrong = broker("check", "a", "x", *scope)
    assert wrong.code == 2
    assert wrong.json()["decision"] == "error"
    assert wrong.err.startswith("broker: `x` is not an argument")


def test_named_outright(broker: Console) -> None:
    """A call whose effects cannot be seen says that nothing enforces it."""
    said = broker("check", "shell", "command=ls", "--scope", "tools=shell", "--scope", "paths=src")
    assert (said.code, said.out) == (0, "allowed (enforcement: none)\n")


def test_workspace(broker: Console, tmp_path: Path) -> None:
    """Patterns start from --workspace, which must be there."""
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "src").symlink_to("/etc")
    words = ("check", "read_file", "path=src/hosts", "--scope", "paths=src")
    assert broker(*words).code == 0
    assert broker(*words, "--workspace", "ws").code == 1
    said = broker(*words, "--workspace", "nowhere")
    assert (said.code, said.out) == (2, "")


def test_server(broker: Console) -> None:
    """The MCP server settles whose tool it is."""
    words = ("check", "mcp__evil__foo__tool", "--scope", "tools=mcp__evil__*", "--server")
    assert broker(*words, "evil").code == 0
    assert broker(*words, "evil__foo").code == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name a tool"),
        (("read_file",), "nothing to decide under: give --scope or --ticket"),
        (("read_file", "path"), "`path` is not an argument"),
        (("read_file", "path=a", "--scope", "path=b"), "no such key `path`"),
        (("read_file", "--batch", "-"), "--batch takes everything from its rows"),
        (("--batch", "-", "--scope", "calls=1"), "--batch takes everything from its rows"),
        (("--batch", "nowhere"), "`nowhere`: no such file or directory"),
        (("a", "--scope", "calls=1", "--ticket", "t"), "--scope or --ticket, not both"),
        (("a", "--ticket", "nowhere"), "cannot read the ticket `nowhere`"),
        (("a", "--zzzz"), "no such option: --zzzz (see `broker check --help`)"),
    ],
)
def test_bad_input(broker: Console, words: tuple[str, ...], said: str) -> None:
    """Bad input is 2, says why on stderr, and nothing on stdout."""
    found = broker("check", *words)
    assert (found.code, found.out) == (2, "")
    assert said in found.err


def test_a_scope_error_points(broker: Console) -> None:
    """A scope's fault is shown with the text and a caret under the place."""
    said = broker("check", "a", "--scope", "calls=1", "--scope", "paths=src/**x")
    assert said.code == 2
    message, text, caret = said.err.splitlines()[:3]
    assert message.startswith("broker: ")
    assert text == "  paths=src/**x"
    assert caret.index("^") in range(len("  paths="), len(text))


def test_batch(broker: Console, tmp_path: Path) -> None:
    """A batch answers line by line: 0 when every row was decided, 2 when one was not."""
    allow = json.dumps({"scope": [], "tool": "a"})
    refuse = json.dumps({"scope": ["tools=none"], "tool": "a"})
    (tmp_path / "rows").write_text(f"{allow}\n{refuse}\n")
    said = broker("check", "--batch", "rows")
    assert [row["decision"] for row in said.rows()] == ["allow", "refuse"]
    assert (said.code, said.err) == (0, "")
    said = broker("check", "--batch", "-", stdin=f"{allow}\n{{}}\n".encode())
    assert [row["decision"] for row in said.rows()] == ["allow", "error"]
    assert (said.code, said.err) == (2, "broker: 1 of 2 rows were not understood\n")


class Asked:
    """Stands in for a live session, and remembers what it was asked."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self.calls: list[tuple[object, object, object]] = []

    def decide(self, tool: object, arguments: object, **more: object) -> Decision:
        self.calls.append((tool, arguments, more))
        return self.decision


@pytest.mark.parametrize(
    ("decision", "code"), [(ALLOW, 0), (Decision(Refusal("calls", "3", "used up")), 1)]
)
def test_inside_a_run(
    broker: Console, monkeypatch: pytest.MonkeyPatch, decision: Decision, code: int, tmp_path: Path
) -> None:
    """Inside a run the live session answers, told where the asking process stands."""
    asked = Asked(decision)
    monkeypatch.setenv("BROKER_SOCKET", "/socket")
    monkeypatch.setattr(SessionClient, "decide", asked.decide)
    assert broker("check", "read_file", "path=a", "--server", "s").code == code
    assert asked.calls == [("read_file", {"path": "a"}, {"server": "s", "cwd": str(tmp_path)})]


def test_a_dry_run_inside_a_run(broker: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --scope it stays a dry run there, and the session is not asked."""
    monkeypatch.setenv("BROKER_SOCKET", "/no/such/socket")
    assert broker("check", "a", "--scope", "tools=a").code == 0


def test_a_session_that_does_not_answer(broker: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that cannot be asked refuses."""
    monkeypatch.setenv("BROKER_SOCKET", "/no/such/socket")
    said = broker("check", "a")
    assert said.code == 1
    assert said.out.startswith("refused (session): ")
    assert broker("check", "a", "--workspace", "/").code == 2


def test_a_dry_run_inside_a_run_says_so(broker: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside a run, an answer that was not the session's is marked as such."""
    assert broker("check", "a", "--scope", "tools=a").err == ""
    monkeypatch.setenv("BROKER_SOCKET", "/no/such/socket")
    assert "dry run" in broker("check", "a", "--scope", "tools=a").err


def test_an_empty_workspace_is_no_folder(broker: Console) -> None:
    """An option that a script left empty is an error, and never the current folder."""
    said = broker("check", "a", "--scope", "tools=a", "--workspace", "")
    assert said.code == 2
    assert "empty" in said.err


def test_conditions_and_the_typed_line(broker: Console) -> None:
    """A dry run looks into arguments, and into the line that --intent gives."""
    scope = ("--scope", "tools=pay(to in intent, amount<=50)")
    call = ("check", "pay", "to=A", "amount:=5", *scope)
    assert broker(*call, "--intent", "Pay A").code == 0
    refused = broker(*call, "--intent", "Pay B")
    assert refused.code == 1
    assert 'argument `to` of `pay`: "A" is not in intent' in refused.out
    assert "needs the line" in broker(*call).err
    assert broker("check", "pay", "to=A", "amount=5", *scope, "--intent", "Pay A").code == 1
