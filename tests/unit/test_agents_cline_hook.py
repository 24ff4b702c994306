"""Cline's calls as the plugin and the net tell them: what is read, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.agents.cline.hook import NET, ClineCall, ClineDialect, judged
from broker.errors import InputError

CALL: dict[str, object] = {
    "event": "call",
    "tool": "editor",
    "arguments": {"path": "a"},
    "call": "call_1",
    "cwd": "/ws",
    "agent": "agent_1",
    "parent": "",
    "tasks": ["go"],
}


def read(servers: tuple[str, ...] = (), **changed: object) -> ClineCall:
    """Read what the plugin said, with some fields changed."""
    return ClineDialect(servers).read(json.dumps({**CALL, **changed}).encode())


def test_a_call_is_read() -> None:
    """Tool, arguments, call id, folder, agent, parent and tasks are taken as they stand."""
    told = read(parent="agent_0", tasks=["look", "dig"])
    assert (told.call.tool, told.call.arguments) == ("editor", {"path": "a"})
    assert (told.call.call_id, told.call.cwd, told.call.server) == ("call_1", "/ws", None)
    assert (told.agent, told.parent, told.tasks) == ("agent_1", "agent_0", ("look", "dig"))
    assert read(more={"x": 1}) == read()


@pytest.mark.parametrize("field", ["event", "tool", "arguments", "call", "cwd", "agent"])
@pytest.mark.parametrize("value", [None, "", 7, []])
def test_a_field_that_is_needed_and_wrong_is_refused(field: str, value: object) -> None:
    """Missing, empty and of another kind are never guessed."""
    with pytest.raises(InputError):
        read(**{field: value})


@pytest.mark.parametrize(("field", "value"), [("parent", 7), ("tasks", "go"), ("tasks", [1])])
def test_who_calls_is_not_guessed(field: str, value: object) -> None:
    """A parent and tasks of another kind refuse."""
    with pytest.raises(InputError):
        read(**{field: value})


def test_a_tool_of_a_server_is_named_as_everywhere() -> None:
    """It counts for one where the person configured the server, and never by its own claim."""
    told = read(("my notes", "fs"), tool="my_notes__look", arguments={"files": 1})
    assert (told.call.server, told.call.tool) == ("my_notes", "mcp__my_notes__look")
    assert told.call.arguments == {"files": 1}
    assert read(("fs",), tool="other__look").call.server is None
    assert read(("fs",), tool="fs__").call.tool == "fs__"
    with pytest.raises(InputError, match="more than one"):
        read(("a", "a__b"), tool="a__b__c")
    with pytest.raises(InputError, match="no tool"):
        read(tool="mcp__fs__look")


# ── arguments ──

ONE: tuple[dict[str, object], ...] = (
    {"files": [{"path": "a", "start_line": 1, "end_line": None}]},
    {"files": [{"file_path": "a"}]},
    {"files": {"filePath": "a"}},
    {"files": ["a"]},
    {"files": "a"},
    {"file_paths": ["a"]},
    {"file_paths": "a"},
    {"paths": [{"path": "a"}, {"start_line": 2}]},
    {"paths": "a"},
    {"path": "a", "start_line": 1},
    {"file_path": "a"},
    {"filePath": "a"},
)


@pytest.mark.parametrize("given", ONE)
def test_every_spelling_of_a_file_to_read(given: dict[str, object]) -> None:
    """Cline takes all of these for the file `a`."""
    assert judged("read_files", given) == {"paths": ["a"]}


def test_no_path_hides_behind_another() -> None:
    """Of several spellings in one call all are judged, whichever Cline takes."""
    given = {"files": ["a"], "file_paths": ["b"], "paths": ["c"], "path": "d", "x": "/e"}
    assert judged("read_files", given) == {"paths": ["a", "b", "c", "d"], "x": "/e"}


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"files": []},
        {"files": [{"start_line": 1}]},
        {"files": [{}]},
        {"files": [{"name": "a"}]},
        {"files": [7]},
        {"files": [{"path": ["a"]}]},
        {"files": '["/etc/passwd"]'},
        {"path": ' {"path": "/etc/passwd"}'},
        {"path": None},
    ],
)
def test_a_file_that_cannot_be_told_is_refused(given: dict[str, object]) -> None:
    """No path, another kind of value, or a text that may be read as JSON."""
    with pytest.raises(InputError):
        judged("read_files", given)


def test_a_search_reads_its_whole_folder() -> None:
    """The catalog is given the folder; a path of the model's would only narrow what is judged."""
    assert judged("search_codebase", {"queries": ["a"]}) == {"queries": ["a"], "path": "."}
    for queries in (["a", "--pre=./x"], "-fx", [1], 7):
        with pytest.raises(InputError):
            judged("search_codebase", {"queries": queries})
    with pytest.raises(InputError):
        judged("search_codebase", {"queries": ["a"], "path": "src"})


def test_a_patch_has_one_name() -> None:
    """What Cline calls `input` is what the catalog calls `patch`."""
    assert judged("apply_patch", {"input": "x"}) == {"patch": "x"}
    with pytest.raises(InputError):
        judged("apply_patch", {"input": "x", "patch": "y"})


# ── refusals ──


def test_a_refusal_in_both_shapes() -> None:
    """The plugin reads the reason alone, and the net what ends the run."""
    dialect = ClineDialect()
    assert dialect.deny("call", "no").stdout == b"no"
    told = json.loads(dialect.deny(NET, "no").stdout)
    assert told == {"cancel": True, "errorMessage": "no"}


# ── what was captured, and what was not ──


def test_captured_payloads_are_read(shared: Path) -> None:
    """What the real agent wrote to a hook file is the net's event, and its calls can be told."""
    files = sorted((shared / "agents/captures/cline").glob("PreToolUse*.json"))
    assert len(files) > 10
    for path in files:
        found: dict[str, Any] = json.loads(path.read_bytes())
        assert ClineDialect().read(path.read_bytes()).call.event == NET
        call = found["tool_call"]
        told = read(("filesystem",), tool=call["name"], arguments=call["input"])
        assert told.given == call["input"]
        assert (told.call.server is None) == ("__" not in call["name"])


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_noise_is_no_call(payload: bytes) -> None:
    """Whatever is not one of our payloads is an error, and an error refuses."""
    with pytest.raises(InputError):
        ClineDialect().read(payload)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(st.sampled_from(["path", "file_path", "start_line", "x"]), inside)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["files", "file_paths", "paths", "path", "file_path", "filePath", "x"]),
        JSON,
    )
)
def test_every_text_that_may_be_a_path_is_judged(given: dict[str, object]) -> None:
    """A call of any shape is refused, or every path of it stands among those that are judged."""
    try:
        found = judged("read_files", given)
    except InputError:
        return
    paths = found["paths"]
    assert isinstance(paths, list)
    for key in ("files", "file_paths", "paths"):
        value = given.get(key, [])
        for item in value if isinstance(value, list) else [value]:
            named = (
                [item.get(k) for k in ("path", "file_path", "filePath") if k in item]
                if (isinstance(item, dict))
                else [item]
            )
            assert all(path in paths for path in named)
    assert all(given[k] in paths for k in ("path", "file_path", "filePath") if k in given)
