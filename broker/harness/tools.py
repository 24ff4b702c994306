"""
The reference agent's tools: read, write, edit, grep, glob, shell, fetch and task.

Decided here: what each tool takes and does. Not decided here: whether a call may run (the
session says so before) and what its arguments touch (``reference-agent.toml`` among the
catalogs says so). Every tool does real work, on real files, with the standard library.

Rules a maintainer keeps: a tool touches only the places that were located before the decision
(``Work.places``); a tool that fails raises ``ToolError``, and the model reads its message.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from broker.errors import PatternError
from broker.globs import check_path, path_matcher
from broker.harness.files import Files, ToolError
from broker.harness.shell import run_command
from broker.harness.web import fetch_page
from broker.limits import MAX_MATCHES, MAX_RESULT_CHARS

Kind = Literal["path", "text", "texts"]


@dataclass(frozen=True, slots=True)
class Work:
    """
    What one call may use.

    ``places`` are its path arguments, located before the call was decided. ``hop`` decides one
    more address and raises ``Refused``; ``delegate`` runs a subagent under a narrower ticket
    and returns what it said.
    """

    files: Files
    places: Mapping[str, str]
    hop: Callable[[str], None]
    delegate: Callable[[str, tuple[str, ...]], str]
    environ: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool; ``default`` is None when it must be given."""

    kind: Kind
    about: str
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: its name, what it takes, and what it does."""

    name: str
    about: str
    arguments: Mapping[str, Parameter]
    run: Callable[[Work, Mapping[str, object]], str]

    def schema(self) -> dict[str, object]:
        """
        Return the arguments as a JSON Schema, as a model's provider asks for them.

        >>> TOOLS["read"].schema()["required"]
        ['path']
        """
        return {
            "type": "object",
            "properties": {name: _schema(a) for name, a in self.arguments.items()},
            "required": [n for n, a in self.arguments.items() if a.default is None],
            "additionalProperties": False,
        }

    def validate(self, arguments: object) -> dict[str, object]:
        """
        Return the arguments with defaults filled in.

        Raises:
            ToolError: one is missing, unknown or of the wrong type.

        >>> TOOLS["grep"].validate({"pattern": "def "})
        {'pattern': 'def ', 'path': '.'}
        """
        if not isinstance(arguments, dict):
            raise ToolError(f"`{self.name}` takes an object of arguments")
        for name in arguments:
            if name not in self.arguments:
                raise ToolError(f"`{self.name}` takes no `{name}`: {', '.join(self.arguments)}")
        full: dict[str, object] = {}
        for name, argument in self.arguments.items():
            value = arguments.get(name, argument.default)
            if value is None:
                raise ToolError(f"`{self.name}` needs `{name}`")
            if not _fits(argument.kind, value):
                what = "a list of texts" if argument.kind == "texts" else "a text"
                raise ToolError(f"`{name}` of `{self.name}` must be {what}")
            full[name] = value
        return full

    def locate(self, files: Files, arguments: Mapping[str, object]) -> dict[str, str]:
        """
        Return the places that the path arguments lead to.

        Raises:
            ToolError: a path leads out of the workspace.
        """
        return {
            name: files.locate(str(arguments[name]))
            for name, argument in self.arguments.items()
            if argument.kind == "path"
        }


def _schema(argument: Parameter) -> dict[str, object]:
    text: dict[str, object] = {"type": "string"}
    shape = {"type": "array", "items": text} if argument.kind == "texts" else text
    return {**shape, "description": argument.about}


def _fits(kind: Kind, value: object) -> bool:
    if kind == "texts":
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    return isinstance(value, str)


def clipped(text: str) -> str:
    """Return a result as the model sees it: cut at MAX_RESULT_CHARS, and saying so."""
    if len(text) <= MAX_RESULT_CHARS:
        return text
    return f"{text[:MAX_RESULT_CHARS]}\n… {len(text) - MAX_RESULT_CHARS} more characters"


# ── what each tool does ──


def _text(files: Files, place: str) -> str:
    try:
        return files.read(place).decode()
    except UnicodeDecodeError as error:
        raise ToolError(f"`{place}` is not text") from error


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ToolError("the text holds half a character and cannot be written") from error


def _read(work: Work, arguments: Mapping[str, object]) -> str:
    return _text(work.files, work.places["path"])


def _write(work: Work, arguments: Mapping[str, object]) -> str:
    content = _encoded(str(arguments["content"]))
    work.files.write(work.places["path"], content)
    return f"wrote {len(content)} bytes to {work.places['path']}"


def _edit(work: Work, arguments: Mapping[str, object]) -> str:
    place, old = work.places["path"], str(arguments["old"])
    before = _text(work.files, place)
    found = before.count(old) if old else 0
    if found != 1:
        raise ToolError(f"`old` must occur in `{place}` exactly once, and occurs {found} times")
    work.files.write(place, _encoded(before.replace(old, str(arguments["new"]))))
    return f"edited {place}"


def _grep(work: Work, arguments: Mapping[str, object]) -> str:
    try:
        wanted = re.compile(str(arguments["pattern"]))
    except re.error as error:
        raise ToolError(f"`{arguments['pattern']}` is not a regular expression") from error
    lines: list[str] = []
    for place in work.files.walk(work.places["path"]):
        try:
            text = _text(work.files, place)
        except ToolError:
            continue  # not text, too large, or not for this user to read
        for number, line in enumerate(text.splitlines(), 1):
            if wanted.search(line):
                lines.append(f"{place}:{number}: {line}")
        if len(lines) >= MAX_MATCHES:
            break
    return "\n".join(lines[:MAX_MATCHES]) or "no match"


def _glob(work: Work, arguments: Mapping[str, object]) -> str:
    top = work.places["path"]
    try:
        matches = path_matcher((check_path(str(arguments["pattern"])),)).match
    except PatternError as error:
        raise ToolError(error.message) from error
    found: list[str] = []
    for place in work.files.walk(top):
        if matches(os.path.relpath(place, top) + "/"):
            found.append(place)
            if len(found) == MAX_MATCHES:
                break
    return "\n".join(found) or "no match"


def _shell(work: Work, arguments: Mapping[str, object]) -> str:
    ran = run_command(str(arguments["command"]), work.files.root, work.environ)
    if ran.code is None:
        raise ToolError(f"stopped at the time limit\n{ran.output}")
    if ran.code:
        raise ToolError(f"exit {ran.code}\n{ran.output}")
    return ran.output or "done"


def _fetch(work: Work, arguments: Mapping[str, object]) -> str:
    page = fetch_page(str(arguments["url"]), work.hop)
    if page.status >= 400:
        raise ToolError(f"{page.url} answered {page.status}\n{page.text}")
    return f"{page.url} {page.status} {page.kind}\n{page.text}"


def _task(work: Work, arguments: Mapping[str, object]) -> str:
    scope = arguments["scope"]
    assert isinstance(scope, list)  # noqa: S101 - the arguments have been validated
    return work.delegate(str(arguments["prompt"]), tuple(scope))


_PATH: Final = Parameter("path", "relative to the workspace")
_BELOW: Final = Parameter("path", "file or folder to search, the whole workspace if left out", ".")

TOOLS: Final[Mapping[str, Tool]] = {
    tool.name: tool
    for tool in (
        Tool("read", "Return the text of one file.", {"path": _PATH}, _read),
        Tool(
            "write",
            "Write one file, new or whole.",
            {"path": _PATH, "content": Parameter("text", "all of the file's text")},
            _write,
        ),
        Tool(
            "edit",
            "Replace one passage of a file.",
            {
                "path": _PATH,
                "old": Parameter("text", "the passage, which must occur exactly once"),
                "new": Parameter("text", "what stands there instead"),
            },
            _edit,
        ),
        Tool(
            "grep",
            "Return the lines that match a regular expression.",
            {"pattern": Parameter("text", "a regular expression of Python"), "path": _BELOW},
            _grep,
        ),
        Tool(
            "glob",
            "Return the files whose path matches a pattern.",
            {"pattern": Parameter("text", "a path pattern such as `**/*.py`"), "path": _BELOW},
            _glob,
        ),
        Tool(
            "shell",
            "Run one command line in the workspace.",
            {"command": Parameter("text", "a command line for sh")},
            _shell,
        ),
        Tool("fetch", "Return one page of the web.", {"url": Parameter("text", "http(s)")}, _fetch),
        Tool(
            "task",
            "Hand a part of the work to a subagent with a narrower ticket.",
            {
                "prompt": Parameter("text", "what the subagent is to do"),
                "scope": Parameter("texts", "KEY=VALUE texts that narrow your own scope"),
            },
            _task,
        ),
    )
}
