"""
Cline CLI's calls, as the broker's plugin and its net tell them.

Decided here: what a payload says, which arguments of a tool mean what others call so, and which
call is one of an MCP server. Not decided here: whose call it is (``broker.agents.cline.crew``),
and what is answered (``broker.agents.cline.answers``).

Cline reads the arguments of its own tools in many spellings (``files``, ``paths``, ``file_path``,
a bare text, …). Every path that any of them could name is judged, whichever Cline would take. It
searches with ``rg`` and gives it the query as it is, so a query that begins with a dash would be
an option, and is refused. It calls a server's tool ``SERVER__TOOL``; with the servers that the
person configured, such a call becomes ``mcp__SERVER__TOOL``, as in every scope.

The net is a hook file of Cline's: a program before each call, whose refusal ends the whole run. It
decides nothing; it only ends a run that has lost the plugin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from broker.agents.hooks import HookCall, arguments_of, spelled_server, text_of
from broker.agents.plugin import CALL, END, START, read_spoken, refused
from broker.errors import InputError
from broker.service.protocol import HookRefusal, read_object, write_object
from broker.sessions.records import wellformed

NAME: Final = "cline"
NET: Final = "tool_call"  # as Cline's own payload names the event
SPAWNS: Final = "spawn_agent"
RUNS: Final = "team_run_task"
SUBAGENT: Final = "subagent_"  # tools of the person's and the workspace's own kinds of agents

_PATHS: Final = ("path", "file_path", "filePath")
_LISTS: Final = ("files", "file_paths", "paths")
_BOUNDS: Final = ("start_line", "end_line")
_OF_JSON: Final = ("[", "{")


@dataclass(frozen=True, slots=True)
class ClineCall:
    """
    A call, and who makes it as Cline tells it: the agent's id, who started it, and its tasks.

    ``given`` are the arguments under Cline's own names.
    """

    call: HookCall
    given: Mapping[str, object] | None = None
    agent: str = ""
    parent: str = ""
    tasks: tuple[str, ...] = ()


class ClineDialect:
    """
    How Cline CLI's calls are told; it knows the MCP servers that the person configured.

    >>> ClineDialect().read(b'{"event":"start"}').call.event
    'start'
    """

    def __init__(self, servers: Iterable[str] = ()) -> None:
        self._servers: frozenset[str] = frozenset()
        self.know(servers)

    def know(self, servers: Iterable[str]) -> None:
        """Take these names for those of the MCP servers that the person configured."""
        self._servers = frozenset(spelled_server(name) for name in servers if name)

    def read(self, payload: bytes) -> ClineCall:
        """
        Read what the plugin or the net wrote.

        Raises:
            InputError: an event that neither has, a field is missing, or a call has two readings.
        """
        found = read_object(payload)
        if found.get("hookName") == NET:
            return ClineCall(HookCall(NET))
        event = text_of(found, "event")
        if event in (START, END):
            return ClineCall(read_spoken(payload).call)
        if event != CALL:
            raise InputError(f"the broker does not answer the event `{event}`")
        name, given = text_of(found, "tool"), found.get("arguments")
        if not isinstance(given, dict):
            raise InputError("the plugin's call has no `arguments` that are an object")
        server, tool = self._named(name)
        return ClineCall(
            HookCall(
                event,
                tool,
                given if server is not None else judged(tool, arguments_of(given)),
                text_of(found, "call"),
                text_of(found, "cwd"),
                server,
            ),
            given,
            text_of(found, "agent"),
            _text(found.get("parent", "")),
            _texts(found.get("tasks", [])),
        )

    def deny(self, event: str, reason: str) -> HookRefusal:
        """Return a refusal: to the plugin the reason alone, to the net the end of the run."""
        if event != NET:
            return refused(reason)
        answer: dict[str, object] = {"cancel": True, "errorMessage": wellformed(reason)}
        return HookRefusal(0, write_object(answer) + b"\n", b"")

    def _named(self, name: str) -> tuple[str | None, str]:
        """Return the server and the name of a tool, as a scope and a catalog know them."""
        if name.startswith("mcp__"):
            # Cline never spells a tool like this: it would pass for another server's.
            raise InputError(f"Cline has no tool `{name[:80]}`")
        found = [s for s in self._servers if name.startswith(f"{s}__") and len(name) > len(s) + 2]
        if len(found) > 1:
            raise InputError(f"`{name[:80]}` may be a tool of more than one MCP server")
        if not found:
            return None, name
        return found[0], f"mcp__{found[0]}__{name[len(found[0]) + 2 :]}"


def judged(tool: str, given: dict[str, object]) -> dict[str, object]:
    """
    Return a call's arguments under the names that the catalog has for them.

    Raises:
        InputError: they have two readings.

    >>> judged("read_files", {"files": [{"path": "a", "start_line": 1}], "paths": "b"})
    {'paths': ['a', 'b']}
    """
    if tool == "read_files":
        return {"paths": _paths(given), **_others(given, (*_LISTS, *_PATHS, *_BOUNDS))}
    if tool == "search_codebase":
        queries = given.get("queries", [])
        for query in queries if isinstance(queries, list) else [queries]:
            if not isinstance(query, str):
                raise InputError("the `queries` of a search are not texts")
            if query.startswith("-"):
                raise InputError("a query that begins with `-` is an option of the search program")
        if "path" in given:
            raise InputError("the search has no `path`: it reads the whole folder")
        return {**given, "path": "."}
    if tool == "apply_patch" and "input" in given:
        if "patch" in given:
            raise InputError("the call has both `input` and `patch`: only one of them is read")
        return {"patch" if k == "input" else k: v for k, v in given.items()}
    return given


def _paths(given: Mapping[str, object]) -> list[str]:
    """Return every path that a call of ``read_files`` could name."""
    found: list[str] = []
    for key in _LISTS:
        value = given.get(key, [])
        for item in value if isinstance(value, list) else [value]:
            found += _item(item)
    found += _item(_only(given, _PATHS)) if _only(given, _PATHS) else []
    if not found:
        raise InputError("the call names no file")
    return found


def _item(item: object) -> list[str]:
    """Return the paths of one entry: a text, or an object with one; bounds alone name none."""
    if isinstance(item, dict):
        named = [item[key] for key in _PATHS if key in item]
        if not named and not _others(item, _BOUNDS):
            return []
    else:
        named = [item]
    paths = [path for path in named if isinstance(path, str)]
    if not named or len(paths) != len(named):
        raise InputError("a file to read has no `path` that is a text")
    if any(path.lstrip().startswith(_OF_JSON) for path in paths):
        raise InputError("a path begins like JSON, and may be read as such")
    return paths


def _only(given: Mapping[str, object], names: Iterable[str]) -> dict[str, object]:
    return {key: given[key] for key in names if key in given}


def _others(given: Mapping[str, object], names: Iterable[str]) -> dict[str, object]:
    return {key: value for key, value in given.items() if key not in frozenset(names)}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise InputError("the plugin's call has a `parent` that is no text")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise InputError("the plugin's `tasks` are not a list of texts")
    return tuple(value)
