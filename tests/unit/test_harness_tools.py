"""The reference agent's tools do real work, and fail in words."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.capabilities.browser import ScriptedBrowser
from broker.capabilities.fs import SystemFiles
from broker.capabilities.process import SystemProcesses
from broker.capabilities.web import WebPage
from broker.catalogs import load_catalogs
from broker.errors import CapabilityError
from broker.harness.files import Files, ToolError
from broker.harness.items import Work
from broker.harness.schemas import Schema
from broker.harness.tools import TOOLS
from broker.limits import MAX_MATCHES

BY_NAME = {tool.name: tool for tool in TOOLS}
PAGES = [
    WebPage("https://a.test/", 200, "text/html", "hello"),
    WebPage("https://a.test/missing", 404, "text/html", "none"),
]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """A small workspace."""
    (tmp_path / "src/deep").mkdir(parents=True)
    (tmp_path / "src/a.py").write_text("def one():\n    return 1\n")
    (tmp_path / "src/deep/b.py").write_text("def two():\n    return 2\n")
    (tmp_path / "notes.md").write_text("one and two\n")
    (tmp_path / "data.bin").write_bytes(b"\xff\xfe\x00one")
    return Files(SystemFiles(), os.path.realpath(tmp_path))


def use(files: Files, name: str, **arguments: object) -> str:
    """Run a tool as the pipeline does: fit, fill, locate, run."""
    tool = BY_NAME[name]
    schema = Schema(tool.schema, name)
    fault = schema.fault(arguments)
    if fault is not None:
        raise ToolError(fault)
    schema.fill(arguments)
    places = {path: files.locate(str(arguments[path])) for path in tool.paths}
    work = Work(
        files,
        places,
        SystemProcesses(),
        ScriptedBrowser(PAGES),
        hop=lambda url: None,
        delegate=lambda prompt, scope, mode: f"{prompt}: {', '.join(scope)} in {mode}",
        recall=lambda result, position: f"{result} from {position}",
    )
    return tool.run(work, arguments)


def test_read_write_and_edit(files: Files) -> None:
    """A file is written, read and edited in one place."""
    assert use(files, "write", path="new.txt", content="one two") == "wrote 7 bytes to new.txt"
    assert use(files, "edit", path="new.txt", old="two", new="three") == "edited new.txt"
    assert use(files, "read", path="new.txt") == "one three"


@pytest.mark.parametrize(("old", "times"), [("one", 0), ("o", 2), ("", 0)])
def test_an_edit_needs_exactly_one_place(files: Files, old: str, times: int) -> None:
    """A passage that is missing or stands twice is not replaced."""
    use(files, "write", path="t", content="two foo"[:6])
    with pytest.raises(ToolError, match=f"occurs {times} times"):
        use(files, "edit", path="t", old=old, new="x")
    assert use(files, "read", path="t") == "two fo"


def test_grep_names_file_and_line(files: Files) -> None:
    """Every match comes with its file and line, and what is no text is passed over."""
    assert use(files, "grep", pattern=r"return \d", path="src") == (
        "src/a.py:2:     return 1\nsrc/deep/b.py:2:     return 2"
    )
    assert use(files, "grep", pattern="one").splitlines()[0] == "notes.md:1: one and two"
    assert use(files, "grep", pattern="three") == "no match"
    with pytest.raises(ToolError, match="regular expression"):
        use(files, "grep", pattern="(")


def test_searches_stop_at_their_limit(files: Files) -> None:
    """A search returns no more than its limit."""
    use(files, "write", path="many", content="x\n" * (MAX_MATCHES + 5))
    assert len(use(files, "grep", pattern="x", path="many").splitlines()) == MAX_MATCHES


@pytest.mark.parametrize(
    ("pattern", "path", "found"),
    [
        ("**/*.py", ".", "src/a.py\nsrc/deep/b.py"),
        ("*.py", "src", "src/a.py"),
        ("deep", "src", "src/deep/b.py"),
        ("*.toml", ".", "no match"),
    ],
)
def test_glob_reads_patterns_as_a_scope_does(
    files: Files, pattern: str, path: str, found: str
) -> None:
    """A pattern means in a glob what it means in a scope."""
    assert use(files, "glob", pattern=pattern, path=path) == found


def test_a_malformed_pattern_is_an_error(files: Files) -> None:
    """A pattern that a scope would not take is the tool's error."""
    with pytest.raises(ToolError):
        use(files, "glob", pattern="../*")


def test_shell_runs_in_the_workspace(files: Files) -> None:
    """A command's output is the result, and its exit code an error."""
    assert use(files, "shell", command="ls src") == "a.py\ndeep\n"
    with pytest.raises(ToolError, match=r"exit 3\nbad"):
        use(files, "shell", command="echo bad; exit 3")


def test_task_hands_prompt_scope_and_mode_on(files: Files) -> None:
    """A task's result is what the subagent says."""
    scope = ["tools=read", "calls=2"]
    assert use(files, "task", prompt="look", scope=scope) == "look: tools=read, calls=2 in None"
    assert use(files, "task", prompt="look", scope=[], mode="ask") == "look:  in ask"


def test_recall_hands_reference_and_position_on(files: Files) -> None:
    """A part of a long result is what the run kept."""
    assert use(files, "recall", result="call-1", position=7) == "call-1 from 7"
    assert use(files, "recall", result="call-1", position=7.0) == "call-1 from 7"


def test_fetch_shows_a_page_or_says_why_not(files: Files) -> None:
    """A page comes with its address and status; a missing one is the tool's error."""
    assert use(files, "fetch", url="https://a.test/") == "https://a.test/ 200 text/html\nhello"
    with pytest.raises(ToolError, match="answered 404"):
        use(files, "fetch", url="https://a.test/missing")
    with pytest.raises(CapabilityError, match="cannot be fetched"):
        use(files, "fetch", url="http://127.0.0.1:1/")


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("read", {}, "required"),
        ("read", {"path": None}, "path"),
        ("read", {"path": 1}, "path"),
        ("read", {"path": "a", "file": "b"}, "file"),
        ("task", {"prompt": "p", "scope": "tools=read"}, "scope"),
        ("task", {"prompt": "p", "scope": [1]}, "scope"),
        ("task", {"prompt": "p", "scope": [], "mode": "root"}, "mode"),
        ("recall", {"result": "r", "position": -1}, "position"),
    ],
)
def test_wrong_arguments_are_errors_in_words(
    files: Files, name: str, arguments: dict[str, object], said: str
) -> None:
    """A missing, unknown or wrongly typed argument is named."""
    with pytest.raises(ToolError, match=said):
        use(files, name, **arguments)


def test_half_a_character_is_not_written(files: Files) -> None:
    """Text that is not well-formed is an error, and no file is left behind."""
    with pytest.raises(ToolError):
        use(files, "write", path="odd", content="\ud800")
    assert not Path(files.root, "odd").exists()


def test_tools_are_known_to_a_catalog() -> None:
    """What each tool's arguments mean is said by a catalog, so that its calls can be judged."""
    catalogs = load_catalogs()
    for tool in TOOLS:
        entry = catalogs.lookup(tool.name)
        assert entry is not None, tool.name
        assert set(tool.paths) <= set(entry.arguments)


def test_only_tools_that_change_nothing_run_side_by_side() -> None:
    """A tool that writes, runs commands or delegates waits for its siblings."""
    assert {tool.name for tool in TOOLS if tool.parallel} == {"read", "grep", "glob", "fetch"}
