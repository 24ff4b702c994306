"""pi's calls: which names pi opens for a path, and what is read of a payload."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.agents.hooks import HookCall
from broker.agents.pi.hook import PiDialect
from broker.agents.pi.launch import EXTENSION_NAME
from broker.catalogs import load_catalogs
from broker.errors import BrokerError, InputError
from broker.resolve import Resolver
from tests.hookkit import Stand
from tests.pluginkit import allowing, payload, put, run_pi

CALL: dict[str, object] = {
    "event": "call",
    "tool": "read",
    "arguments": {"path": "src/a.py"},
    "call": "call_1",
    "cwd": "/ws",
}


def read(**changed: object) -> HookCall:
    """Read a payload with some fields changed."""
    return PiDialect().read(json.dumps({**CALL, **changed}).encode())


def names(tool: str, path: str) -> object:
    """Return what is judged as the path of a call."""
    arguments = read(tool=tool, arguments={"path": path}).arguments
    assert isinstance(arguments, dict)
    return arguments["path"]


def test_a_payload_is_a_call() -> None:
    """A plain path is judged as it stands."""
    assert read() == HookCall("call", "read", {"path": "src/a.py"}, "call_1", "/ws", None, "main")
    assert PiDialect().read(b'{"event":"start"}') == HookCall("start")


def test_an_at_in_front_is_dropped_as_pi_drops_it() -> None:
    """One `@` goes, in every tool that opens a path, and no second one."""
    for tool in ("read", "write", "edit", "grep", "find", "ls"):
        assert names(tool, "@/etc/passwd") == "/etc/passwd"
        assert names(tool, "@@a") == "@a"
        with pytest.raises(InputError):
            names(tool, "@")
    assert names("other", "@a") == "@a"


def test_every_name_that_a_read_may_open_is_judged() -> None:
    """Other apostrophes, the space before AM and PM, and letters taken apart."""
    assert names("read", "it's") == ["it's", "it\u2019s"]
    assert names("read", "at 9 pm.png") == ["at 9 pm.png", "at 9\u202fpm.png"]
    taken_apart = names("read", "l'\u00e9t\u00e9")
    assert isinstance(taken_apart, list)
    assert "l\u2019e\u0301te\u0301" in taken_apart
    assert names("write", "it's") == "it's"


@pytest.mark.parametrize("space", "\u00a0\u2003\u202f\u3000")
def test_a_space_that_pi_would_change_is_refused(space: str) -> None:
    """A path that pi opens under another name than it has is not guessed at."""
    for tool in ("read", "write"):
        with pytest.raises(InputError, match="plain"):
            names(tool, f"src/a{space}b")


@pytest.mark.parametrize("field", sorted(CALL))
def test_a_field_that_is_needed_and_wrong_is_refused(field: str) -> None:
    """Missing, empty and of another kind are never guessed."""
    for value in (None, "", 7, []):
        with pytest.raises(InputError):
            read(**{field: value})


@given(
    changed=st.dictionaries(
        st.sampled_from([*CALL, "agent", "kind", "servers"]),
        st.none() | st.text(max_size=4) | st.integers() | st.dictionaries(st.text(), st.text()),
        min_size=1,
    )
)
def test_no_payload_crashes_the_reader(changed: dict[str, Any]) -> None:
    """Whatever fields hold, there is a call with a tool, the start, or a refusal."""
    try:
        found = read(**changed)
    except BrokerError:
        return
    assert found.tool or found.event == "start"


def test_a_refusal_is_its_reason() -> None:
    """pi shows the model the text that the extension throws."""
    assert PiDialect().deny("call", "because").stdout == b"because"


def test_captured_calls_are_read(shared: Path, tmp_path: Path) -> None:
    """What a real pi told its extension arrives as a call whose arguments are all known."""
    captured = sorted((shared / "agents/captures/pi").glob("tool_call-*.json"))
    events = [json.loads(file.read_text()) for file in captured]
    assert len(events) > 8
    plugin = put("broker.agents.pi", EXTENSION_NAME, tmp_path)
    with Stand(tmp_path / "s", allowing) as stand:
        run_pi(plugin, stand.path, [{**e, "cwd": str(tmp_path)} for e in events])
    resolver = Resolver(tmp_path, load_catalogs())
    for event, request in zip(events, stand.asked[1:], strict=True):
        call = PiDialect().read(json.dumps(payload(request, "pi")).encode())
        assert (call.tool, call.call_id) == (event["toolName"], event["toolCallId"])
        entry = load_catalogs().lookup(call.tool)
        assert entry is not None
        assert set(event["input"]) <= set(entry.arguments)
        assert resolver.resolve(call.tool, call.arguments, cwd=call.cwd).fault is None
