"""The reference agent's tools do real work, and fail in words."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.errors import Refused
from broker.harness.files import Files, ToolError
from broker.harness.tools import TOOLS, Work, clipped
from broker.limits import MAX_MATCHES, MAX_RESULT_CHARS


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """A small workspace."""
    (tmp_path / "src/deep").mkdir(parents=True)
    (tmp_path / "src/a.py").write_text("def one():\n    return 1\n")
    (tmp_path / "src/deep/b.py").write_text("def two():\n    return 2\n")
    (tmp_path / "notes.md").write_text("one and two\n")
    (tmp_path / "data.bin").write_bytes(b"\xff\xfe\x00one")
    return Files(os.path.realpath(tmp_path))


def use(files: Files, name: str, **arguments: object) -> str:
    """Run a tool as the agent does: validate, locate, run."""
    tool = TOOLS[name]
    full = tool.validate(arguments)

    def hop(url: str) -> None:
        raise Refused(url)

    def delegate(prompt: str, scope: tuple[str, ...]) -> str:
        return f"{prompt}: {', '.join(scope)}"

    environ = {"PATH": os.environ["PATH"]}
    return tool.run(Work(files, tool.locate(files, full), hop, delegate, environ), full)


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


def test_task_hands_prompt_and_scope_on(files: Files) -> None:
    """A task's result is what the subagent says."""
    assert use(files, "task", prompt="look", scope=["tools=read", "calls=2"]) == (
        "look: tools=read, calls=2"
    )


def test_fetch_needs_an_address(files: Files) -> None:
    """An address that nobody answers is the tool's error."""
    with pytest.raises(ToolError, match="cannot be fetched"):
        use(files, "fetch", url="http://127.0.0.1:1/")


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("read", [], "takes an object"),
        ("read", {}, "needs `path`"),
        ("read", {"path": None}, "needs `path`"),
        ("read", {"path": 1}, "must be a text"),
        ("read", {"path": "a", "file": "b"}, "takes no `file`"),
        ("task", {"prompt": "p", "scope": "tools=read"}, "list of texts"),
        ("task", {"prompt": "p", "scope": [1]}, "list of texts"),
    ],
)
def test_wrong_arguments_are_errors_in_words(name: str, arguments: object, said: str) -> None:
    """A missing, unknown or wrongly typed argument is named."""
    with pytest.raises(ToolError, match=said):
        TOOLS[name].validate(arguments)


def test_half_a_character_is_not_written(files: Files) -> None:
    """Text that is not well-formed is an error, and no file is left behind."""
    with pytest.raises(ToolError, match="half a character"):
        use(files, "write", path="odd", content="\ud800")
    assert not Path(files.root, "odd").exists()


def test_schemas_name_every_argument() -> None:
    """Each tool's schema lists its arguments and which of them must be given."""
    for tool in TOOLS.values():
        schema = tool.schema()
        properties, required = schema["properties"], schema["required"]
        assert isinstance(properties, dict)
        assert isinstance(required, list)
        assert properties.keys() == tool.arguments.keys()
        assert set(required) <= set(tool.arguments)


def test_long_results_are_clipped() -> None:
    """A long result says how much of it is missing."""
    assert clipped("x" * MAX_RESULT_CHARS) == "x" * MAX_RESULT_CHARS
    assert clipped("x" * (MAX_RESULT_CHARS + 2)).endswith("… 2 more characters")
