"""
The reference agent's tools: read, write, edit, grep, glob, shell, fetch, task and recall.

Decided here: what each tool takes and does. Not decided here: whether a call may run (the session
says so before), whether its arguments fit (their schema does), and what they touch
(``reference-agent.toml`` among the catalogs says so).

Rules a maintainer keeps: a tool touches only the places that were located before the decision
(``Work.places``), and the world only through what its ``Work`` holds; a tool that fails raises
``ToolError``, and the model reads its message.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Mapping
from typing import Final

from broker.errors import PatternError
from broker.globs import check_path, path_matcher
from broker.harness.files import Files, ToolError
from broker.harness.items import Tool, Work
from broker.harness.shell import run_command
from broker.harness.web import fetch_page
from broker.limits import MAX_MATCHES
from broker.permissions.modes import MODES

Arguments = Mapping[str, object]


def schema(
    properties: Mapping[str, Mapping[str, object]], *, optional: Collection[str] = ()
) -> dict[str, object]:
    """
    Return the JSON Schema of an object with these properties and no others.

    Required are those that have no default and are not ``optional``.

    >>> schema({"path": {"type": "string"}})["required"]
    ['path']
    """
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [n for n, a in properties.items() if "default" not in a and n not in optional],
        "additionalProperties": False,
    }


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


def _read(work: Work, arguments: Arguments) -> str:
    return _text(work.files, work.places["path"])


def _write(work: Work, arguments: Arguments) -> str:
    content = _encoded(str(arguments["content"]))
    work.files.write(work.places["path"], content)
    return f"wrote {len(content)} bytes to {work.places['path']}"


def _edit(work: Work, arguments: Arguments) -> str:
    place, old = work.places["path"], str(arguments["old"])
    before = _text(work.files, place)
    found = before.count(old) if old else 0
    if found != 1:
        raise ToolError(f"`old` must occur in `{place}` exactly once, and occurs {found} times")
    work.files.write(place, _encoded(before.replace(old, str(arguments["new"]))))
    return f"edited {place}"


def _grep(work: Work, arguments: Arguments) -> str:
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


def _glob(work: Work, arguments: Arguments) -> str:
    top = work.places["path"]
    try:
        matches = path_matcher((check_path(str(arguments["pattern"])),)).match
    except PatternError as error:
        raise ToolError(error.message) from error
    found: list[str] = []
    for place in work.files.walk(top):
        below = place if top == "." else place.removeprefix(f"{top}/")
        if matches(f"{posixpath.basename(place) if place == top else below}/"):
            found.append(place)
            if len(found) == MAX_MATCHES:
                break
    return "\n".join(found) or "no match"


def _shell(work: Work, arguments: Arguments) -> str:
    ran = run_command(work.processes, str(arguments["command"]), work.files.root)
    if ran.code is None:
        raise ToolError(f"stopped at the time limit\n{ran.output}")
    if ran.code:
        raise ToolError(f"exit {ran.code}\n{ran.output}")
    return ran.output or "done"


def _fetch(work: Work, arguments: Arguments) -> str:
    page = fetch_page(work.browser, str(arguments["url"]), work.hop)
    if page.status >= 400:
        raise ToolError(f"{page.url} answered {page.status}\n{page.text}")
    return f"{page.url} {page.status} {page.kind}\n{page.text}"


def _task(work: Work, arguments: Arguments) -> str:
    scope, mode = arguments["scope"], arguments.get("mode")
    texts = [str(text) for text in scope] if isinstance(scope, list) else []
    return work.delegate(str(arguments["prompt"]), texts, None if mode is None else str(mode))


def _recall(work: Work, arguments: Arguments) -> str:
    position = arguments["position"]  # an integer for JSON, of which 5.0 is one as well
    number = int(position) if isinstance(position, int | float) else 0
    return work.recall(str(arguments["result"]), number)


def _text_of(about: str, **more: object) -> dict[str, object]:
    return {"type": "string", "description": about, **more}


def _tool(
    name: str,
    about: str,
    properties: Mapping[str, Mapping[str, object]],
    run: Callable[[Work, Arguments], str],
    *,
    parallel: bool = False,
    optional: Collection[str] = (),
) -> Tool:
    paths = tuple(name for name in properties if name == "path")
    return Tool(name, about, schema(properties, optional=optional), run, paths, parallel)


_PATH: Final = _text_of("relative to the workspace")
_BELOW: Final = _text_of("file or folder to search, the whole workspace if left out", default=".")

TOOLS: Final[tuple[Tool, ...]] = (
    _tool("read", "Return the text of one file.", {"path": _PATH}, _read, parallel=True),
    _tool(
        "write",
        "Write one file, new or whole.",
        {"path": _PATH, "content": _text_of("all of the file's text")},
        _write,
    ),
    _tool(
        "edit",
        "Replace one passage of a file.",
        {
            "path": _PATH,
            "old": _text_of("the passage, which must occur exactly once"),
            "new": _text_of("what stands there instead"),
        },
        _edit,
    ),
    _tool(
        "grep",
        "Return the lines that match a regular expression.",
        {"pattern": _text_of("a regular expression of Python"), "path": _BELOW},
        _grep,
        parallel=True,
    ),
    _tool(
        "glob",
        "Return the files whose path matches a pattern.",
        {"pattern": _text_of("a path pattern such as `**/*.py`"), "path": _BELOW},
        _glob,
        parallel=True,
    ),
    _tool(
        "shell",
        "Run one command line in the workspace.",
        {"command": _text_of("a command line for sh")},
        _shell,
    ),
    _tool(
        "fetch", "Return one page of the web.", {"url": _text_of("http(s)")}, _fetch, parallel=True
    ),
    _tool(
        "task",
        "Hand a part of the work to a subagent with a narrower ticket.",
        {
            "prompt": _text_of("what the subagent is to do"),
            "scope": {
                "type": "array",
                "items": {"type": "string"},
                "description": "KEY=VALUE texts that narrow your own scope",
            },
            "mode": _text_of("a mode no wider than your own", enum=list(MODES)),
        },
        _task,
        optional=("mode",),
    ),
    _tool(
        "recall",
        "Return another part of a result that was too long to be shown.",
        {
            "result": _text_of("the reference that stands in the result"),
            "position": {"type": "integer", "minimum": 0, "description": "in characters"},
        },
        _recall,
    ),
)
