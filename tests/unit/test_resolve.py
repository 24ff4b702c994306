"""Any tool and any arguments become a call; calls inside calls too."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

import pytest

from broker.calls import Call
from broker.catalogs import load_catalogs
from broker.errors import InputError
from broker.limits import (
    MAX_ARGUMENT_DEPTH,
    MAX_CALL_LEVELS,
    MAX_NESTED_CALLS,
    MAX_SUBJECT_CHARS,
    MAX_SUBJECTS,
    MAX_TOOL_CHARS,
)
from broker.resolution.arguments import canonical_digest
from broker.resolve import Resolver

CATALOGS = load_catalogs()


@pytest.fixture
def resolver(tmp_path: Path) -> Resolver:
    """A resolver for a small workspace."""
    (tmp_path / "ws" / "src").mkdir(parents=True)
    (tmp_path / "ws" / "src" / "a.py").write_text("a")
    return Resolver(tmp_path / "ws", CATALOGS)


def places(call: Call) -> list[tuple[str, ...]]:
    """Return the places of a call's paths."""
    return [path.places for path in call.paths]


def test_a_known_call(resolver: Resolver) -> None:
    """A call of a known tool has its paths, its digest, and nothing else."""
    arguments = {"file_path": "src/a.py", "limit": 5}
    call = resolver.resolve("Read", arguments)
    assert call.tool == "Read"
    assert places(call) == [("src/a.py/",)]
    assert call.digest == canonical_digest(arguments)
    assert (call.opaque, call.missing, call.fault, call.nested, call.command) == (
        False,
        (),
        None,
        (),
        None,
    )


def test_an_absolute_path_from_another_folder(resolver: Resolver) -> None:
    """Absolute paths are what agents send; relative ones start from the agent's folder."""
    root = resolver.root
    call = resolver.resolve("Read", {"file_path": f"{root}/src/a.py"}, cwd="/")
    assert places(call) == [("src/a.py/",)]
    assert places(resolver.resolve("Read", {"file_path": "a.py"}, cwd=f"{root}/src")) == [
        ("src/a.py/",)
    ]
    assert places(resolver.resolve("Read", {"file_path": "a.py"}, cwd="src")) == [("src/a.py/",)]
    assert places(resolver.resolve("Read", {"file_path": "a.py"}, cwd="/")) == [()]
    assert places(resolver.resolve("Grep", {"pattern": "x"}, cwd=f"{root}/src")) == [("src/",)]


@pytest.mark.parametrize("cwd", ["", "~", "a\0", "\ud800", 5, ["src"]])
def test_an_unclear_folder_is_a_fault(resolver: Resolver, cwd: object) -> None:
    """Where relative paths start must be known."""
    call = resolver.resolve("Read", {"file_path": "x"}, cwd=cwd)  # type: ignore[arg-type]  # it is hostile on purpose
    assert call.fault is not None
    assert (call.fault.kind, call.fault.argument) == ("path", "cwd")


def test_no_arguments_are_an_empty_object(resolver: Resolver) -> None:
    """A tool that takes nothing may be called with nothing."""
    call = resolver.resolve("get_time", None)
    assert call == resolver.resolve("get_time", {})
    assert call.fault is None


@pytest.mark.parametrize("arguments", [[], "x", 5, True, 1.5, [{"path": "x"}]])
def test_arguments_are_an_object(resolver: Resolver, arguments: object) -> None:
    """Any other JSON value is a fault."""
    call = resolver.resolve("Read", arguments)
    assert call.fault is not None
    assert call.fault.kind == "arguments"


@pytest.mark.parametrize(
    "tool",
    [
        None,
        5,
        ["Read"],
        {"a": 1},
        "",
        "Read\n",
        " ",
        "Re\0ad",
        "Read\u200b",
        "\ud800",
        "\u202eRead",
        "x" * (MAX_TOOL_CHARS + 1),
        "mcp__github__",
        b"Read",
    ],
)
def test_a_tool_has_a_plain_name(resolver: Resolver, tool: object) -> None:
    """A name that is none, or holds what is not seen, is a fault, and stays writable."""
    call = resolver.resolve(tool, {"file_path": "src/a.py"})
    assert call.fault is not None
    assert call.fault.kind == "tool"
    call.tool.encode()
    assert len(call.tool) <= MAX_TOOL_CHARS + 1
    assert call.tool != "Read"


@pytest.mark.parametrize("tool", ["x" * MAX_TOOL_CHARS, "\u8aad\u3080", "a.b-c/d", "mcp__a"])
def test_an_odd_name_is_a_name(resolver: Resolver, tool: str) -> None:
    """Names in any script, up to the limit, are names of unknown tools."""
    call = resolver.resolve(tool, {})
    assert call.fault is None
    assert call.opaque


@pytest.mark.parametrize("server", [5, "", "a\nb", "\ud800", ["x"]])
def test_a_server_has_a_plain_name(resolver: Resolver, server: object) -> None:
    """The server's name is held to the same."""
    call = resolver.resolve("mcp__a__b", {}, server=server)  # type: ignore[arg-type]  # it is hostile on purpose
    assert call.fault is not None
    assert call.fault.kind == "tool"


def test_a_server_s_tool(resolver: Resolver) -> None:
    """The same name is another tool when another server answers."""
    name = "mcp__filesystem__read_text_file"
    known = resolver.resolve(name, {"path": "src/a.py"}, server="filesystem")
    assert (known.opaque, known.server) == (False, "filesystem")
    assert known.paths[0].access == "read"
    other = resolver.resolve(name, {"path": "src/a.py"}, server="other")
    assert (other.opaque, other.paths[0].access) == (True, "write")
    assert resolver.resolve("Read", {"file_path": "x"}, server="filesystem").opaque


def test_an_unknown_tool_is_opaque(resolver: Resolver) -> None:
    """Nothing is known of what it does; what looks like a path is still judged."""
    call = resolver.resolve("frobnicate", {"path": "src/a.py", "note": "x"})
    assert call.opaque
    assert [(p.access, p.places) for p in call.paths] == [("write", ("src/a.py/",))]


def test_a_shell_shows_its_command(resolver: Resolver) -> None:
    """The command is kept for people to read; it is not searched for paths."""
    call = resolver.resolve("Bash", {"command": "cat /etc/passwd"})
    assert (call.opaque, call.command, call.paths) == (True, "cat /etc/passwd", ())


def test_helpers_are_not_opaque(resolver: Resolver) -> None:
    """Starting a helper touches nothing, since each of its calls is decided for itself."""
    call = resolver.resolve("Agent", {"description": "x", "prompt": "read /etc/passwd"})
    assert (call.opaque, call.paths, call.urls, call.fault) == (False, (), (), None)


def test_what_is_missing_is_named(resolver: Resolver) -> None:
    """An argument that is due and absent is named, whatever else there is."""
    assert resolver.resolve("Read", {"path": "src/a.py"}).missing == ("file_path",)
    assert resolver.resolve("WebFetch", {}).missing == ("url",)


def test_a_fault_keeps_what_was_read(resolver: Resolver) -> None:
    """The first thing that cannot be read is the fault; what came before it is there."""
    call = resolver.resolve("read_many", {"paths": ["src/a.py", "~/x", "\0"]})
    assert places(call) == [("src/a.py/",)]
    assert call.fault is not None
    assert (call.fault.kind, call.fault.argument) == ("path", "paths[1]")


def test_calls_inside_a_call(resolver: Resolver) -> None:
    """Each inner call is read like any other, in the usual spellings, and costs one."""
    call = resolver.resolve(
        "batch",
        {
            "operations": [
                {"tool": "read_file", "args": {"path": "src/a.py"}},
                {"name": "fetch", "arguments": {"url": "https://a.example/"}},
                {"tool_name": "get_time"},
                {"tool": "get_time", "args": None},
                {"tool": "batch", "args": {"operations": {"tool": "shell", "input": {}}}},
                {"tool": 5, "args": {}},
                {"tool": "read_file", "args": []},
            ]
        },
    )
    assert call.fault is None
    assert [c.tool for c in call.nested] == [
        "read_file",
        "fetch",
        "get_time",
        "get_time",
        "batch",
        "",
        "read_file",
    ]
    assert call.cost() == 9
    assert places(call.nested[0]) == [("src/a.py/",)]
    assert call.nested[1].urls[0].host == "a.example"
    assert call.nested[4].nested[0].opaque
    assert [c.fault.kind if c.fault else None for c in call.nested[5:]] == ["tool", "arguments"]
    assert call.nested[0].digest == canonical_digest({"path": "src/a.py"})


@pytest.mark.parametrize(
    "item",
    [
        5,
        "read_file",
        {},
        {"args": {}},
        {"tool": "a", "name": "b"},
        {"tool": "a", "args": {}, "arguments": {}},
        [],
    ],
)
def test_an_unclear_call_inside_a_call(resolver: Resolver, item: object) -> None:
    """When it is not clear which tool an inner call is for, the whole call is unreadable."""
    call = resolver.resolve("batch", {"operations": [item]})
    assert call.fault is not None
    assert call.fault.kind == "arguments"


def test_more_in_an_inner_call_is_judged(resolver: Resolver) -> None:
    """What stands beside an inner call's arguments may be what the tool uses."""
    call = resolver.resolve("batch", {"operations": [{"tool": "get_time", "path": "/etc/x"}]})
    assert places(call) == [()]


def test_the_number_of_inner_calls_is_bounded(resolver: Resolver) -> None:
    """As many as the limit says are read, in all levels together; one more is a fault."""
    one = {"tool": "get_time"}
    full = resolver.resolve("batch", {"operations": [one] * MAX_NESTED_CALLS})
    assert full.fault is None
    assert full.cost() == MAX_NESTED_CALLS + 1
    deep = {"tool": "batch", "args": {"operations": [one] * MAX_NESTED_CALLS}}
    over = resolver.resolve("batch", {"operations": [deep]})
    assert any(c.fault is not None for c in (over, *over.nested))


def test_the_levels_of_inner_calls_are_bounded(resolver: Resolver) -> None:
    """Each level is read, and written down for its digest, once more: so there are few."""

    def inside(levels: int) -> dict[str, object]:
        call: dict[str, object] = {"tool": "get_time"}
        for _ in range(levels):
            call = {"tool": "batch", "args": {"operations": [call]}}
        return call

    def faults(call: Call) -> list[str]:
        own = [call.fault.reason] if call.fault else []
        return own + [reason for inner in call.nested for reason in faults(inner)]

    most = resolver.resolve("batch", {"operations": [inside(MAX_CALL_LEVELS - 1)]})
    assert faults(most) == []
    assert most.cost() == MAX_CALL_LEVELS + 1
    [reason] = faults(resolver.resolve("batch", {"operations": [inside(MAX_CALL_LEVELS)]}))
    assert "more than 8 levels" in reason
    wide = resolver.resolve("batch", {"operations": [inside(2)] * 20})
    assert faults(wide) == []  # calls beside each other are no levels


def test_the_places_of_all_inner_calls_are_bounded(resolver: Resolver) -> None:
    """Spreading paths over inner calls does not lift the limit."""
    names = [f"src/{n}" for n in range(MAX_SUBJECTS // 2)]
    half = {"tool": "read_many", "args": {"paths": names}}
    call = resolver.resolve("batch", {"operations": [half, half, half]})
    assert call.nested[0].fault is None
    assert call.nested[2].fault is not None


@pytest.mark.parametrize("spread", [1, 10])
def test_one_long_folder_and_many_names_in_it(resolver: Resolver, spread: int) -> None:
    """What is spelled out for a call stays near its ceiling, alone or spread over inner calls."""
    names = [f"n{n}" for n in range(MAX_SUBJECTS // spread)]
    far = ("/" + "d" * 200) * 318
    one = {"tool": "read_many", "args": {"paths": names}}
    made = (
        resolver.resolve("read_many", one["args"], cwd=far)
        if spread == 1
        else resolver.resolve("batch", {"operations": [one] * spread}, cwd=far)
    )
    calls = [made, *made.nested]
    assert any(c.fault is not None and "characters" in c.fault.reason for c in calls)
    held = sum(len(p.resolved) + sum(map(len, p.places)) for c in calls for p in c.paths)
    assert held < 2 * MAX_SUBJECT_CHARS


def test_links_are_read_anew_for_each_call(resolver: Resolver) -> None:
    """Nothing is kept: a file that becomes a link leads elsewhere at the next call."""
    call = ("Read", {"file_path": "src/a.py"})
    assert places(resolver.resolve(*call)) == [("src/a.py/",)]
    os.unlink(f"{resolver.root}/src/a.py")
    os.symlink("/etc/passwd", f"{resolver.root}/src/a.py")
    assert places(resolver.resolve(*call)) == [()]


def test_a_replaced_workspace_is_a_fault(resolver: Resolver) -> None:
    """When the workspace is another folder, paths cannot be read; other calls can."""
    os.rename(resolver.root, resolver.root + "-old")
    os.mkdir(resolver.root)
    call = resolver.resolve("Read", {"file_path": "src/a.py"})
    assert call.fault is not None
    assert "moved or replaced" in call.fault.reason
    assert resolver.resolve("get_time", {}).fault is None


def test_the_broker_s_own_files(tmp_path: Path) -> None:
    """Paths in the folders that are given as the broker's own are marked."""
    (tmp_path / "ws").mkdir()
    resolver = Resolver(tmp_path / "ws", CATALOGS, own=[str(tmp_path / "state")])
    assert resolver.resolve("Read", {"file_path": f"{tmp_path}/state/x"}).paths[0].own
    assert not resolver.resolve("Read", {"file_path": f"{tmp_path}/other"}).paths[0].own


def test_windows_workspaces_are_read_as_text() -> None:
    """A workspace with a drive needs no disk."""
    resolver = Resolver("C:\\ws", CATALOGS)
    call = resolver.resolve("Read", {"file_path": "c:\\WS\\Src\\a.py"})
    assert places(call) == [("Src/a.py/",)]
    assert call.paths[0].folded
    assert places(resolver.resolve("Glob", {"pattern": "C:/ws/src/*.py"})) == [("src/",)]


def test_a_workspace_must_be_there(tmp_path: Path) -> None:
    """A resolver for no folder is an error at once."""
    with pytest.raises(InputError):
        Resolver(tmp_path / "none", CATALOGS)


def nested(depth: int) -> object:
    """Return objects in lists in objects."""
    value: object = "x"
    for n in range(depth):
        value = [value] if n % 2 else {"path": value}
    return value


HOSTILE: dict[str, tuple[str, object]] = {
    "deep lists": ("read_file", {"path": nested(200_000)}),
    "at the depth": ("zz", nested(2 * (MAX_ARGUMENT_DEPTH // 2) - 1)),
    "a long path": ("read_file", {"path": "a/" * 5_000_000}),
    "a long text": ("write_file", {"path": "a", "content": "\u00e9" * 10_000_000}),
    "many paths": ("read_many", {"paths": [f"src/{n}.py" for n in range(100_000)]}),
    "too many": ("read_many", {"paths": ["src/a.py"] * 100_001}),
    "many names": ("write_file", {f"path{n}": "x" for n in range(100_000)}),
    "climbing": ("write_file", {"path": "src/../" * 9_000}),
    "much climbing": ("read_many", {"paths": ["src/../" * 9_000] * 200}),
    "half characters": ("read_file", {"\ud800": "\udfff", "path": "\ud800"}),
    "numbers": ("read_file", {"path": 10**100_000, "x": math.inf, "y": math.nan}),
    "shared lists": ("read_many", {"paths": [[[["x"] * 50] * 50] * 50] * 50}),
    "braces": ("glob", {"pattern": "{" * 60_000}),
    "more braces": ("glob", {"pattern": "{,}" * 20_000}),
    "a patch": ("apply_patch", {"patch": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n" * 50_000}),
    "quotes": ("apply_patch", {"patch": '--- "a/' + "\\303" * 500_000 + '"\n+++ b/x\n'}),
    "headers": ("fetch", {"url": "https://a.example/", "headers": ["Host: b.example"] * 5_000}),
    "urls": ("fetch_many", {"urls": ["https://a.example/" + "x" * 1_000] * 1_000}),
    "letters": ("write_file", {"path": "\ufdfa" * 60_000}),
    "a class": ("read_file", {"path": Resolver}),
    "bytes": ("read_file", {"path": b"x"}),
    "calls": ("batch", {"operations": [{"tool": "batch", "args": {"operations": []}}] * 2_000}),
}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_arguments_give_a_call_soon(resolver: Resolver, what: str, known: bool) -> None:
    """Whatever the arguments are, there is a call, it can be written down, and it is soon there."""
    tool, arguments = HOSTILE[what]
    begun = time.process_time()
    call = resolver.resolve(tool if known else "frobnicate", arguments)
    assert time.process_time() - begun < 5  # about a second, on a quiet machine
    assert isinstance(call, Call)
    for path in call.paths[:100]:
        "".join([path.argument, path.spelled, path.resolved, path.why, *path.places]).encode()
    if call.fault is not None:
        (call.fault.reason + call.fault.argument).encode()
        assert "\n" not in call.fault.reason
        assert len(call.fault.reason) < 1_000
