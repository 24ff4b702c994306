"""The hook's client: its framing, its refusals, and what it may import."""

from __future__ import annotations

import ast
import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker import hookclient, limits
from broker.hookclient import ALLOW, STOPS, Doubt, answered, denial, read_answer
from broker.service import protocol
from broker.service.protocol import HookRefusal, frame
from tests.hookkit import CLIENT, PAYLOAD, Stand, denied, run_hook, said_nothing


def test_its_framing_is_the_protocols() -> None:
    """The copy of the framing that the client holds is the framing that the server speaks."""
    assert hookclient.MAX_REQUEST_BYTES == limits.MAX_REQUEST_BYTES
    assert (hookclient.ALLOW, hookclient.REFUSE) == (protocol.ALLOW, protocol.REFUSE)
    assert read_answer(protocol.ALLOW) == (0, b"", b"")


@given(st.sampled_from([0, 2]), st.binary(min_size=1), st.binary(min_size=1))
def test_a_refusal_is_printed_as_it_was_given(code: int, out: bytes, err: bytes) -> None:
    """What the server said goes through to the byte."""
    assert read_answer(HookRefusal(code, out, err).encode()) == (code, out, err)


@given(st.binary(max_size=60))
def test_no_bytes_read_as_an_allow_but_the_allow(body: bytes) -> None:
    """Anything but the one text is a refusal that the agent sees, or a doubt."""
    for candidate in (body, ALLOW[:-1] + body, protocol.REFUSE + body):
        if candidate == ALLOW:
            continue
        try:
            code, out, err = read_answer(candidate)
        except Doubt:
            continue
        assert (code == 0 and out) or (code == 2 and err)


@pytest.mark.parametrize(
    "body",
    [
        HookRefusal(0, b"", b"").encode(),
        HookRefusal(0, b"", b"only an error text").encode(),
        HookRefusal(2, b"only an output", b"").encode(),
        HookRefusal(1, b"out", b"err").encode(),
        HookRefusal(0, b"out", b"").encode() + b"x",
        HookRefusal(0, b"out", b"").encode()[:-1],
        ALLOW + b"\n",
        ALLOW * 2,
        bytes(64),
        b"",
    ],
)
def test_a_refusal_that_says_nothing_is_a_doubt(body: bytes) -> None:
    """A refusal that its agent would take for an allow is replaced by one that it will not."""
    with pytest.raises(Doubt):
        read_answer(body)


@pytest.mark.parametrize("agent", ["claude-code", "codex", "copilot-cli", "qwen-code"])
def test_a_denial_has_the_shape_that_claude_and_its_relatives_read(agent: str) -> None:
    """One JSON object on standard output, exit code 0, and the reason inside."""
    code, out, err = denial(agent, "the broker could not be asked")
    assert (code, err) == (0, b"")
    answer = json.loads(out)["hookSpecificOutput"]
    assert answer["permissionDecision"] == "deny"
    assert "could not be asked" in answer["permissionDecisionReason"]


def test_a_denial_has_the_shape_that_others_read() -> None:
    """Gemini CLI and Cline get objects of their own, an agent that is not known an exit code."""
    why = "the broker could not be asked"
    said = f"refused: {why}; do not work around this; ask the person"
    assert denial("gemini-cli", why)[0] == 0
    assert json.loads(denial("gemini-cli", why)[1]) == {"decision": "deny", "reason": said}
    assert json.loads(denial("cline", why)[1]) == {"cancel": True, "errorMessage": said}
    assert denial("other", why) == (2, b"", said.encode() + b"\n")


def test_it_imports_what_is_in_the_interpreter_and_nothing_more() -> None:
    """Every import costs each tool call, so there are three, and the socket."""
    tree = ast.parse(Path(CLIENT).read_text(encoding="utf-8"))
    found = {
        name
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert found == {"__future__", "_signal", "posix", "sys", "_socket"}


def test_an_allow_prints_nothing(tmp_path: Path) -> None:
    """An allow leaves the call to the agent's own rules, and the payload went through whole."""
    with Stand(tmp_path / "s", lambda _: frame(ALLOW)) as stand:
        assert said_nothing(run_hook(tmp_path / "s"))
    assert stand.asked == [b"hook claude-code\n" + PAYLOAD]


def test_a_refusal_is_printed(tmp_path: Path) -> None:
    """What the session answered is what the agent reads, with its exit code."""
    refusal = HookRefusal(2, b"out", b"err")
    with Stand(tmp_path / "s", lambda _: frame(refusal.encode())):
        done = run_hook(tmp_path / "s")
    assert (done.returncode, done.stdout, done.stderr) == (2, b"out", b"err")


@pytest.fixture
def signals() -> Iterator[None]:
    """Put the signals of this process back, which the client takes for its own."""
    before = {number: signal.getsignal(number) for number in (*STOPS, signal.SIGALRM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    "argv",
    [
        ["x"],
        ["x", "/s"],
        ["x", "/s", "claude-code"],
        ["x", "/s", "claude-code", "soon"],
        ["x", "/s", "claude-code", "0"],
        ["x", "/s", "claude-code", "-1"],
        ["x", "/s", "claude-code", "9999999"],
        ["x", "/s", "claude-code", "100", "more"],
    ],
)
def test_a_command_that_was_changed_refuses(argv: list[str], signals: None) -> None:
    """Started in any other way than the broker wrote it, the client refuses."""
    code, out, err = answered(argv)
    assert (code == 0 and b'"deny"' in out) or (code == 2 and err)


def test_a_path_that_is_no_socket_refuses(tmp_path: Path) -> None:
    """A file, a folder, and a path too long to be a socket refuse like a missing one."""
    (tmp_path / "file").write_text("x")
    for path in (tmp_path, tmp_path / "file", tmp_path / "none", "/" + "x" * 300, "\udcff"):
        assert "could not be asked" in denied(run_hook(path))
