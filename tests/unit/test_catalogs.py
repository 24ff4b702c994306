"""Catalogs: which files count, which of them wins, and what a group holds."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from broker.catalogs import Argument, Catalogs, load_catalogs
from broker.catalogs.entry import ToolEntry
from broker.errors import CatalogError
from broker.resolution.roles import PLAIN
from broker.resolve import Resolver
from tests.agents.tongues import TONGUES, Tongue

LOOK = '[tools.look]\neffect = "read"\narguments = { path = "path-read" }\n'


@pytest.fixture(scope="module")
def shipped() -> Catalogs:
    """The catalogs of the package."""
    return load_catalogs()


def put(folder: Path, name: str, text: str) -> Path:
    """Write a catalog file and return its name."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_the_shipped_catalogs_are_read(shipped: Catalogs) -> None:
    """Every shipped file describes tools, and each tool is described once."""
    assert "claude-code.toml" in shipped.sources
    assert len(shipped.tools()) > 100
    assert {entry.source for entry in shipped.tools()} == set(shipped.sources)


def test_claude_code_s_tools_are_known(shipped: Catalogs) -> None:
    """Every tool that Claude Code offers has an entry of the right effect."""
    effects = {
        "read": "Read Glob Grep LS",
        "write": "Edit Write NotebookEdit",
        "egress": "WebFetch",
        "opaque": "Bash WebSearch Skill Workflow Monitor CronCreate CronDelete SendMessage "
        "ListAgents EnterWorktree ExitWorktree",
        "delegate": "Agent Task",
        "none": "TodoWrite TaskCreate TaskGet TaskList TaskStop TaskUpdate CronList "
        "ReportFindings AskUserQuestion ExitPlanMode",
    }
    for effect, names in effects.items():
        for name in names.split():
            entry = shipped.lookup(name)
            assert entry is not None, name
            assert entry.effect == effect, name


def test_tools_that_read_a_whole_tree_say_so(shipped: Catalogs) -> None:
    """What searches, prints or lists everything below a folder is no mere listing of it."""
    git = "git_status git_diff git_diff_staged git_diff_unstaged git_show"
    names = ("find", "grep", "grep_search", "Grep", "Glob", "LS", "search_codebase")
    trees = dict.fromkeys(names, "path")
    trees |= {f"mcp__filesystem__{name}": "path" for name in ("directory_tree", "search_files")}
    trees |= {f"mcp__git__{name}": "repo_path" for name in git.split()}
    trees |= {"mcp__git__git_add": "files", "copy_file": "source"}
    held = {
        entry.name: key
        for entry in shipped.tools()
        for key, argument in entry.arguments.items()
        if argument.role == "path-tree"
    }
    assert held == trees


def test_tools_that_put_a_whole_tree_say_so(shipped: Catalogs) -> None:
    """Where a folder may be moved, copied or cloned to is no place of a single file."""
    held = {
        entry.name: key
        for entry in shipped.tools()
        for key, argument in entry.arguments.items()
        if argument.role == "path-put"
    }
    moves = ("move_file", "copy_file", "mcp__filesystem__move_file")
    assert held == dict.fromkeys(moves, "destination") | {"git_clone": "dest"}


def test_the_group_of_reading_tools(shipped: Catalogs) -> None:
    """`@reads` holds what reads or touches nothing: no writing, no network, nothing opaque."""
    reads = shipped.group("reads")
    assert {"Read", "read_file", "get_time", "mcp__filesystem__read_text_file"} <= reads
    assert not reads & {"Write", "WebFetch", "WebSearch", "Bash", "Agent", "fetch", "read_resource"}
    assert shipped.groups()["reads"] == reads
    with pytest.raises(CatalogError, match="no such group `write`"):
        shipped.group("write")


def test_the_groups_by_effect(shipped: Catalogs) -> None:
    """`@writes` holds what changes local files, `@egress` what reaches the network, no one both."""
    groups = shipped.groups()
    assert set(groups) == {"reads", "writes", "egress"}
    assert {"Write", "write_file"} <= groups["writes"]
    assert {"WebFetch", "fetch"} <= groups["egress"]
    assert not groups["reads"] & groups["writes"] | groups["writes"] & groups["egress"]
    assert "Bash" not in groups["writes"] | groups["egress"]


def test_a_name_finds_only_its_own_server_s_tool(shipped: Catalogs) -> None:
    """A server's tool is found by its full name or as a pair, and never by another server."""
    name = "mcp__filesystem__read_file"
    assert shipped.lookup(name) is shipped.lookup(name, "filesystem")
    assert shipped.lookup("read_file", "filesystem") is shipped.lookup(name)
    assert shipped.lookup(name, "elsewhere") is None
    assert shipped.lookup("Read", "filesystem") is None
    assert shipped.lookup("nothing") is None
    assert shipped.lookup("nothing", "filesystem") is None


def test_a_name_with_two_readings_is_not_known() -> None:
    """A full name that two servers could have is found only when the server is known."""
    entry = ToolEntry("mcp__a__b__c", "a", "read")
    odd = ToolEntry("mcp__a___b", "a", "read")
    catalogs = Catalogs([entry, odd])
    assert catalogs.lookup("mcp__a__b__c") is None
    assert catalogs.lookup("mcp__a___b") is None
    assert catalogs.lookup("mcp__a__b__c", "a") is entry
    assert catalogs.lookup("mcp__a__b__c", "a__b") is None


def test_a_person_s_file_may_say_otherwise(tmp_path: Path) -> None:
    """The person's own catalog adds tools and replaces shipped entries."""
    put(tmp_path / "catalogs", "mine.toml", LOOK + '[tools.Read]\neffect = "opaque"\n')
    put(tmp_path / "catalogs", "notes.txt", "not a catalog")
    catalogs = load_catalogs(config=tmp_path)
    look, read = catalogs.lookup("look"), catalogs.lookup("Read")
    assert look is not None
    assert read is not None
    assert look.arguments == {"path": Argument("path-read")}
    assert look.vouched
    assert read.effect == "opaque"
    assert "look" in catalogs.group("reads")
    assert "Read" not in catalogs.group("reads")


def test_a_workspace_s_file_only_adds(tmp_path: Path) -> None:
    """A repository may describe new tools; it cannot vouch for them, so no group holds them."""
    put(tmp_path / ".broker" / "catalogs", "team.toml", LOOK)
    catalogs = load_catalogs(workspace=tmp_path)
    look = catalogs.lookup("look")
    assert look is not None
    assert not look.vouched
    assert "look" not in catalogs.group("reads")


@pytest.mark.parametrize("tool", ["Read", "look"])
def test_a_workspace_s_file_redefines_nothing(tool: str, tmp_path: Path) -> None:
    """Neither a shipped tool nor one of the person's own is redefined by a repository."""
    put(tmp_path / "config" / "catalogs", "mine.toml", LOOK)
    text = f'about = "x"\n\n[tools.{tool}]\neffect = "none"\n'
    path = put(tmp_path / ".broker" / "catalogs", "team.toml", text)
    with pytest.raises(CatalogError) as caught:
        load_catalogs(tmp_path, tmp_path / "config")
    assert caught.value.message.startswith(f"{path}:3: `{tool}` is already described by ")
    assert caught.value.message.endswith("a file of the workspace cannot redefine it")


def test_two_files_of_a_person_do_not_contradict(tmp_path: Path) -> None:
    """The same tool in two files of one folder is an error that names both."""
    put(tmp_path / "catalogs", "a.toml", LOOK)
    put(tmp_path / "catalogs", "b.toml", LOOK)
    with pytest.raises(CatalogError, match=r"b\.toml:1: `look` is already .*a\.toml:1"):
        load_catalogs(config=tmp_path)


def test_folders_that_are_not_there_hold_nothing(tmp_path: Path, shipped: Catalogs) -> None:
    """No settings at all is the common case."""
    assert load_catalogs(tmp_path, tmp_path / "none").sources == shipped.sources
    (tmp_path / ".broker").write_text("a file")
    assert load_catalogs(tmp_path).sources == shipped.sources


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    """A pipe or a device under a catalog's name is an error and no endless wait."""
    folder = tmp_path / ".broker" / "catalogs"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "x.toml")
    with pytest.raises(CatalogError, match=r"x\.toml:1: not a file"):
        load_catalogs(tmp_path)
    (folder / "x.toml").unlink()
    os.symlink("/dev/zero", folder / "x.toml")
    with pytest.raises(CatalogError, match="not a file"):
        load_catalogs(tmp_path)


def test_the_number_of_files_is_bounded(tmp_path: Path) -> None:
    """A folder full of catalogs is an error before any of them is read."""
    for n in range(257):
        put(tmp_path / "catalogs", f"{n}.toml", "broken")
    with pytest.raises(CatalogError, match="more than 256 files"):
        load_catalogs(config=tmp_path)


def test_the_corpus_s_roles_are_ours(shipped: Catalogs, shared: Path) -> None:
    """Each tool that the corpus assumes has its role for each argument, or a stricter one."""
    tools = json.loads((shared / "corpus" / "tools.json").read_text(encoding="utf-8"))
    tools.pop("_about")
    for name, arguments in tools.items():
        entry = shipped.lookup(name)
        assert entry is not None, name
        for key, due in arguments.items():
            same(entry.arguments[key], due)


def same(argument: Argument, due: object) -> None:
    """Assert that an argument has the role that the corpus gives it."""
    stricter = {"path-list": "path-tree", "path-read": "path-tree", "path-write": "path-put"}
    if isinstance(due, str):
        # What is text there may be known better here; it is no path and no address all the same.
        known = PLAIN if due == "text" else ()
        assert argument.role in (due, stricter.get(due), *known)
    else:
        assert isinstance(due, dict)
        if "role" in due:
            assert argument.role in (due["role"], stricter.get(due["role"]))
            assert argument.default == due["default"]
        else:
            assert argument.fields is not None
            for key, inner in due.items():
                same(argument.fields[key], inner)


def test_captured_calls_have_no_unknown_argument(shipped: Catalogs, shared: Path) -> None:
    """What a real agent sends to its hooks is known, argument by argument."""
    seen = 0
    for path in sorted((shared / "agents" / "captures" / "claude").glob("PreToolUse*.json")):
        payload = json.loads(path.read_text(encoding="utf-8"))
        server = payload.get("mcp_server", {}).get("name")
        entry = shipped.lookup(payload["tool_name"], server)
        assert entry is not None, payload["tool_name"]
        assert entry.others == "text" or payload["tool_input"].keys() <= entry.arguments.keys()
        seen += 1
    assert seen > 5


@pytest.mark.parametrize("tongue", TONGUES, ids=lambda tongue: tongue.name)
def test_what_each_agent_reads_and_writes_with_is_known(shipped: Catalogs, tongue: Tongue) -> None:
    """An agent's own file tools are held by `reads` and `writes`, not as any tool of that name."""
    for kind, effect in (("read", "read"), ("edit", "write"), ("write", "write")):
        entry = shipped.lookup(tongue.names[kind], None)
        assert entry is not None, tongue.names[kind]
        assert entry.effect == effect, tongue.names[kind]


def test_a_picture_is_read(shipped: Catalogs, tmp_path: Path) -> None:
    """Codex reads files into its model by `view_image`: within `reads`, and never outside."""
    call = Resolver(tmp_path, shipped).resolve("view_image", {"path": "a.png", "detail": "high"})
    assert [path.access for path in call.paths] == ["read"]
