"""opencode's calls: other names of arguments, servers' tools, and what its searches reach."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.agents.children import News, Spawn
from broker.agents.hooks import HookCall
from broker.agents.opencode.hook import OpencodeDialect
from broker.agents.opencode.launch import CLOSED, PLUGIN_NAME
from broker.catalogs import load_catalogs
from broker.errors import BrokerError, InputError
from broker.resolve import Resolver
from broker.service.protocol import ALLOW, frame
from tests.hookkit import Stand
from tests.pluginkit import allowing, payload, put, run_opencode

CALL: dict[str, object] = {
    "event": "call",
    "tool": "read",
    "arguments": {"filePath": "src/a.py"},
    "call": "call_1",
    "cwd": "/ws",
}
PACKAGE = "broker.agents.opencode"
MAIN = {"ses_1": {"id": "ses_1"}}


def read(*servers: str, folder: bool = True, **changed: object) -> HookCall:
    """Read a payload with some fields changed, after a start that told some servers."""
    dialect = OpencodeDialect(lambda path: folder)
    dialect.read(json.dumps({"event": "start", "servers": list(servers)}).encode())
    return dialect.read(json.dumps({**CALL, **changed}).encode())


def given_to(tool: str, **arguments: object) -> object:
    """Return the arguments that are judged."""
    return read(tool=tool, arguments=arguments).arguments


def test_arguments_have_the_names_that_others_use() -> None:
    """The same tool under another name of an argument is judged as the same tool."""
    assert given_to("read", filePath="a", limit=2) == {"path": "a", "limit": 2}
    assert given_to("write", filePath="a", content="x") == {"path": "a", "content": "x"}
    assert given_to("bash", command="ls", workdir="x") == {"command": "ls", "cwd": "x"}
    assert given_to("apply_patch", patchText="p") == {"patch": "p"}
    edited = given_to("edit", filePath="a", oldString="x", newString="y", replaceAll=True)
    assert edited == {"path": "a", "old": "x", "new": "y", "replaceAll": True}
    assert given_to("unknown", filePath="a") == {"filePath": "a"}
    with pytest.raises(InputError):
        given_to("read", filePath="/etc/passwd", path="src/a.py")


def test_a_search_in_a_file_searches_its_folder() -> None:
    """opencode greps the folder of a file that is named, so the folder is judged as well."""
    grep = {"pattern": "x", "path": "src/a.py"}
    assert read(tool="grep", arguments=grep).arguments == grep
    found = read(tool="grep", arguments=grep, folder=False).arguments
    assert found == {"pattern": "x", "path": ["src/a.py", "src"]}
    alone = read(tool="grep", arguments={"pattern": "x", "path": "a.py"}, folder=False).arguments
    assert alone == {"pattern": "x", "path": ["a.py", "."]}


def test_a_glob_without_a_slash_reaches_every_folder_below() -> None:
    """The pattern is judged as what it finds."""
    assert given_to("glob", pattern="*.py") == {"pattern": "**/*.py"}
    assert given_to("glob", pattern="src/*.py") == {"pattern": "src/*.py"}


def test_a_server_s_tool_has_its_full_name() -> None:
    """The servers that the plugin told make the name that scopes use; others stay as they are."""
    call = read("my notes", "web", tool="my_notes_look", arguments={"filePath": "a"})
    assert (call.tool, call.server) == ("mcp__my_notes__look", "my_notes")
    assert call.arguments == {"filePath": "a"}
    assert read("notes", tool="other_look").tool == "other_look"
    assert read("notes", tool="notes_").tool == "notes_"


@pytest.mark.parametrize(
    ("servers", "tool"), [(("a", "a_b"), "a_b_c"), (("apply",), "apply_patch")]
)
def test_a_name_that_two_could_have_is_refused(servers: tuple[str, ...], tool: str) -> None:
    """Neither of two servers, nor a server and a tool of opencode's own, is guessed."""
    with pytest.raises(InputError, match="more than one"):
        read(*servers, tool=tool)


def test_a_later_start_takes_no_server_away() -> None:
    """Whoever else speaks to the socket cannot free a server's tools of its name."""
    dialect = OpencodeDialect()
    for servers in ('["notes"]', "[]"):
        dialect.read(f'{{"event":"start","servers":{servers}}}'.encode())
    call = json.dumps({**CALL, "tool": "notes_drop", "arguments": {}}).encode()
    assert dialect.read(call).tool == "mcp__notes__drop"


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
    """opencode shows the model the text that the plugin throws."""
    assert OpencodeDialect().deny("call", "because").stdout == b"because"


# ── the plugin, under Node ──


def calls(root: Path, answer: Any, *made: dict[str, object], **sessions: object) -> Any:
    """Make calls through the plugin; return what came of them, and what the session was asked."""
    plugin = put(PACKAGE, PLUGIN_NAME, root)
    with Stand(root / "s", answer) as stand:
        done = run_opencode(plugin, stand.path, made, {**MAIN, **sessions})
    return done, [payload(request, "opencode") for request in stand.asked]


def test_the_plugin_opens_what_was_closed_once_the_session_answered(tmp_path: Path) -> None:
    """The rule that closes every tool goes away, and it alone; the servers are told."""
    done, asked = calls(tmp_path, allowing)
    assert asked == [{"event": "start", "servers": ["notes"]}]
    assert done["config"]["permission"] == {"bash": "allow"}


def test_without_an_answer_every_tool_stays_closed(tmp_path: Path) -> None:
    """A start that fails leaves the rule where it is, and later calls are refused."""
    call = {"tool": "bash", "sessionID": "ses_1", "callID": "c1", "args": {"command": "ls"}}
    done, _ = calls(tmp_path, lambda _: frame(ALLOW)[:-1], call)
    assert done["config"]["permission"] == {"bash": "allow", CLOSED: "deny"}
    assert [told.startswith(("start: refused", "refused")) for told in done["told"]] == [True, True]


def test_what_was_judged_cannot_be_changed(tmp_path: Path) -> None:
    """A plugin that is asked after ours finds the arguments fixed."""
    call = {"tool": "bash", "sessionID": "ses_1", "callID": "c1", "args": {"command": "ls"}}
    done, _ = calls(tmp_path, allowing, call)
    assert done["told"] == [None]
    assert done["calls"][0]["args"] == {"command": "ls"}


def test_a_subagent_s_call_is_told_as_its_own(tmp_path: Path) -> None:
    """A session with a parent is a subagent's; one that opencode does not know is refused."""
    made = [
        {"tool": "bash", "sessionID": name, "callID": "c", "args": {"command": "ls"}}
        for name in ("ses_1", "ses_2", "ses_3")
    ]
    child = {"id": "ses_2", "parentID": "ses_1", "agent": "general"}
    done, asked = calls(tmp_path, allowing, *made, ses_2=child)
    assert done["told"][:2] == [None, None]
    assert "whose call" in done["told"][2]
    actors = [OpencodeDialect().read(json.dumps(told).encode()).actor for told in asked[1:]]
    assert actors == ["main", "agent:general:ses_2"]


def test_an_opencode_that_does_not_say_whose_call_it_is(tmp_path: Path) -> None:
    """A question to opencode itself that is never answered refuses the call at the deadline."""
    plugin = put(PACKAGE, PLUGIN_NAME, tmp_path)
    client = plugin.with_name("ask.mjs")
    client.write_text(client.read_text().replace("= 15000", "= 500"))
    call = {"tool": "bash", "sessionID": "ses_1", "callID": "c1", "args": {"command": "ls"}}
    with Stand(tmp_path / "s", allowing) as stand:
        (told,) = run_opencode(plugin, stand.path, [call], {"ses_1": "never"})["told"]
    assert "the agent did not answer in time" in told


def test_captured_calls_are_read(shared: Path, tmp_path: Path) -> None:
    """What a real opencode told its plugin arrives as a call whose arguments are all known."""
    captured = sorted((shared / "agents/captures/opencode").glob("tool.execute.before-*.json"))
    seen = [json.loads(file.read_text()) for file in captured]
    assert len(seen) > 12
    made = [{**row["input"], "args": row["output"]["args"]} for row in seen]
    sessions = {row["sessionID"]: {"id": row["sessionID"]} for row in made}
    done, asked = calls(tmp_path, allowing, *made, **sessions)
    assert set(done["told"]) == {None}
    dialect = OpencodeDialect()
    dialect.read(b'{"event":"start","servers":["filesystem"]}')
    catalogs = load_catalogs()
    resolver = Resolver(tmp_path, catalogs)
    for row, told in zip(made, asked[1:], strict=True):
        call = dialect.read(json.dumps(told).encode())
        entry = catalogs.lookup(call.tool, call.server)
        assert entry is not None, call.tool
        assert isinstance(call.arguments, dict)
        assert entry.others == "text" or set(call.arguments) <= set(entry.arguments), call
        assert resolver.resolve(call.tool, call.arguments, server=call.server).fault is None
        assert call.call_id == row["callID"]


def test_a_subagent_says_who_started_it_and_for_what() -> None:
    """Its parent and its task are taken from its session, and a call that starts one is known."""
    told = read(agent="ses_2", kind="general", parent="ses_1", task="look").caller
    assert told == News("begun", "id:ses_2", "general", "id:ses_1", "", "look")
    assert read(agent="ses_2", kind="general").caller.parent == "main"
    given = {"subagent_type": "general", "prompt": "look", "description": "x"}
    assert read(tool="task", arguments=given).spawn == Spawn("task", "general", "look")
    on = Spawn("task", "general", "look", resumes="id:ses_2")
    assert read(tool="task", arguments={**given, "task_id": "ses_2"}).spawn == on
    assert read(tool="task", arguments={**given, "task_id": ""}).spawn == replace(on, resumes="")
    with pytest.raises(InputError, match="task_id"):
        read(tool="task", arguments={**given, "task_id": ["ses_2"]})
    assert read(tool="skill", arguments={"name": "x"}).spawn == Spawn("skill", many=True)


def test_the_plugin_tells_parent_and_task(tmp_path: Path) -> None:
    """They are what opencode says of the sessions, and a subagent's parent may be one too."""
    text = [{"info": {"role": "user"}, "parts": [{"type": "text", "text": "look"}]}]
    sessions: dict[str, object] = {
        "ses_2": {"id": "ses_2", "parentID": "ses_1", "agent": "general", "messages": text},
        "ses_3": {"id": "ses_3", "parentID": "ses_2", "agent": "deep"},
    }
    made = [
        {"tool": "bash", "sessionID": name, "callID": name, "args": {}} for name in sorted(sessions)
    ]
    _, asked = calls(tmp_path, allowing, *made, **sessions)
    inner = next(told for told in asked if told.get("agent") == "ses_3")
    outer = next(told for told in asked if told.get("agent") == "ses_2")
    assert (outer["kind"], outer["task"], outer.get("parent")) == ("general", "look", None)
    assert (inner["kind"], inner["parent"]) == ("deep", "ses_2")
