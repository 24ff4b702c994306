"""Gemini CLI's payloads, and how a refusal is spelled for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.agents.gemini.hook import GeminiCall, GeminiDialect, judged
from broker.errors import BrokerError, InputError

CALL = {
    "hook_event_name": "BeforeTool",
    "tool_name": "read_file",
    "tool_input": {"file_path": "a.py"},
    "cwd": "/ws",
}
SERVER = {"server_name": "filesystem", "tool_name": "read_text_file", "command": "node"}
EVENTS = ("BeforeTool", "AfterTool", "SessionStart", "BeforeAgent")


def read(**changed: object) -> GeminiCall:
    """Read a payload with some fields changed."""
    return GeminiDialect().read(json.dumps({**CALL, **changed}).encode())


def test_a_payload_is_a_call() -> None:
    """Tool, folder and time are taken as they stand, and arguments under the catalogs' names."""
    found = read(timestamp="2026-11-30T09:18:13.659Z", later_field=1)
    assert (found.event, found.tool, found.cwd, found.server) == (
        "BeforeTool",
        "read_file",
        "/ws",
        None,
    )
    assert found.arguments == {"path": "a.py"}
    assert found.given == {"file_path": "a.py"}
    assert found.fired_ms == 1_796_030_293_659


@pytest.mark.parametrize("time", [None, 7, "", "soon", "2026-11-30T09:18:13", "9999-99-99"])
def test_a_time_that_cannot_be_read_is_no_time(time: object) -> None:
    """Such a call may be anybody's; it is not taken for an early or a late one."""
    assert read(timestamp=time).fired_ms is None


def test_the_end_of_a_call_tells_how_it_ended() -> None:
    """Success and output come from the response; an empty error is none."""
    ended = {"hook_event_name": "AfterTool"}
    fine = read(**ended, tool_response={"llmContent": "text", "error": None})
    assert (fine.ok, fine.output) == (True, "text")
    assert not read(**ended, tool_response={"error": {"message": "no"}}).ok
    with pytest.raises(InputError):
        read(**ended)


def test_a_tool_of_a_server_is_named_after_it() -> None:
    """The server comes from beside the name, and its arguments keep their own names."""
    found = read(
        tool_name="mcp_filesystem_read_text_file",
        mcp_context=SERVER,
        tool_input={"path": "a", "dir_path": "b"},
    )
    assert (found.tool, found.server) == ("mcp__filesystem__read_text_file", "filesystem")
    assert found.arguments == {"path": "a", "dir_path": "b"}
    spaced = read(mcp_context={**SERVER, "server_name": "my server"})
    assert (spaced.tool, spaced.server) == ("mcp__my_server__read_text_file", "my_server")


@pytest.mark.parametrize(
    "context", [7, [], {}, {"server_name": "a"}, {"tool_name": "a"}, {**SERVER, "tool_name": ""}]
)
def test_a_server_that_is_half_told_is_refused(context: object) -> None:
    """A call of a server without its name or its tool's is not guessed."""
    with pytest.raises(InputError):
        read(mcp_context=context)


@pytest.mark.parametrize("name", ["filesystem__x", "_a", "a_", "a__", "  a"])
def test_a_server_that_reads_as_another_is_refused(name: str) -> None:
    """`mcp__a__b__c` may not be two different tools."""
    with pytest.raises(InputError):
        read(mcp_context={**SERVER, "server_name": name})
    with pytest.raises(InputError):
        read(tool_name="mcp__filesystem__read_text_file")


def test_arguments_are_renamed_only_where_nothing_is_lost() -> None:
    """An argument that has both names keeps both, and the unknown one is judged as it looks."""
    both = {"file_path": "/etc/passwd", "path": "src/a.py"}
    assert judged("read_file", both) == both
    assert judged("run_shell_command", {"dir_path": "x"}) == {"directory": "x"}
    assert judged("other", {"dir_path": "x"}) == {"dir_path": "x"}


def test_the_addresses_of_a_prompt_are_judged() -> None:
    """Every word that the tool would fetch is an address of the call."""
    prompt = "compare\thttps://a.example/x and\nhttp://b.example and nothing else"
    assert judged("web_fetch", {"prompt": prompt})["url"] == [
        "https://a.example/x",
        "http://b.example",
    ]


def test_a_report_is_no_call() -> None:
    """A subagent can always hand its work back; a server's tool of that name is a call."""
    assert not read(tool_name="complete_task").tool
    assert read(tool_name="mcp_x", mcp_context={**SERVER, "tool_name": "complete_task"}).tool


@pytest.mark.parametrize("field", sorted(CALL))
@pytest.mark.parametrize("value", [None, "", 7, []])
def test_a_field_that_is_needed_and_wrong_is_refused(field: str, value: object) -> None:
    """Missing, empty and of another kind are never guessed."""
    with pytest.raises(InputError):
        read(**{field: value})


@pytest.mark.parametrize("event", ["PreToolUse", "BeforeModel", "AfterAgent", "Notification"])
def test_other_events_are_refused(event: str) -> None:
    """A hook that was set in front of anything else is not answered with an allow."""
    with pytest.raises(InputError):
        read(hook_event_name=event)


@pytest.mark.parametrize("event", EVENTS)
def test_a_refusal_is_one_object(event: str) -> None:
    """It denies with a reason, at every event, and exits with 0."""
    answer = GeminiDialect().deny(event, "because \ud800")
    assert answer.exit == 0
    assert json.loads(answer.stdout)["decision"] == "deny"
    assert json.loads(answer.stdout)["reason"].startswith("because")


@given(
    changed=st.dictionaries(
        st.sampled_from([*CALL, "mcp_context", "timestamp", "tool_response"]),
        st.none()
        | st.text(max_size=4)
        | st.integers()
        | st.sampled_from(EVENTS)
        | st.dictionaries(st.sampled_from(["server_name", "tool_name", "error"]), st.text()),
        min_size=1,
    )
)
def test_no_payload_crashes_the_reader(changed: dict[str, Any]) -> None:
    """Whatever fields hold, there is a call with a tool, an event without one, or a refusal."""
    try:
        found = read(**changed)
    except BrokerError:
        return
    assert found.tool or found.event in ("SessionStart", "BeforeAgent")


def test_captured_payloads_are_read(shared: Path) -> None:
    """Every payload that a real Gemini CLI sent around a call is a call with its tool."""
    files = sorted((shared / "agents/captures/gemini").glob("*Tool-*.json"))
    assert len(files) > 30
    for file in files:
        found = GeminiDialect().read(file.read_bytes())
        report = file.name.partition("-")[2].startswith("complete_task")
        assert bool(found.tool) is not report, file.name
        if found.tool:
            assert found.fired_ms is not None
            assert found.cwd
