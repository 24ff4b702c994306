"""
From a tool and its arguments to the paths and URLs that the call touches.

Decided here: which catalog entry describes a call, and the calls inside it. Not decided here:
how each argument is read (``broker.resolution.reading``), where a path leads
(``broker.resolution.realpaths``), and whether the call may run (``broker.authorize``).

Rules a maintainer keeps: ``Resolver.resolve`` is total, any Python value gives a ``Call``;
what cannot be read becomes a ``Fault``; a tool that no catalog knows is opaque; nothing is
kept between calls, because links and files change.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Final

from broker.calls import Call, Fault
from broker.catalogs import Catalogs
from broker.limits import MAX_CALL_LEVELS, MAX_NESTED_CALLS, MAX_SUBJECTS, MAX_TOOL_CHARS
from broker.resolution.arguments import (
    TOO_MANY,
    Taken,
    Unreadable,
    canonical_digest,
    clean,
    examine,
)
from broker.resolution.places import DiskPaths, Paths
from broker.resolution.reading import Reading
from broker.resolution.realpaths import PathError
from broker.resolution.winpaths import WindowsPaths, is_windows

__all__ = ["Resolver", "canonical_digest"]

_UNSEEN: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
_CALL_NAMES: Final = ("tool", "tool_name", "name", "recipient_name")
_CALL_ARGUMENTS: Final = ("args", "arguments", "input", "tool_input", "parameters", "params")


class Resolver:
    """
    Reads calls for one workspace.

    Args:
        workspace: the folder that patterns are relative to. Spelled the Windows way
            (``C:\\ws``), it is read from its text alone.
        catalogs: what is known of tools.
        own: absolute folders of the broker, links already followed.
        paths: what reads paths in place of this machine's disk and of ``own``.

    Raises:
        InputError: the workspace is not a folder.

    >>> import os, tempfile
    >>> from broker.catalogs import load_catalogs
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     os.mkdir(os.path.join(folder, "src"))
    ...     resolver = Resolver(folder, load_catalogs())
    ...     resolver.resolve("Read", {"file_path": "src/../src/a.py"}).paths[0].places
    ('src/a.py/',)
    """

    def __init__(
        self,
        workspace: str | os.PathLike[str],
        catalogs: Catalogs,
        *,
        own: Sequence[str] = (),
        paths: Paths | None = None,
    ) -> None:
        text = os.fspath(workspace)
        self.catalogs = catalogs
        usual = WindowsPaths if is_windows(text) else DiskPaths
        self._paths: Paths = usual(text, own) if paths is None else paths
        self.root = self._paths.root

    def resolve(
        self,
        tool: object,
        arguments: object,
        *,
        server: str | None = None,
        cwd: str | None = None,
    ) -> Call:
        """
        Return what a call touches. Total: it never raises, whatever it is given.

        Args:
            tool: the tool's name as the agent spells it.
            arguments: the call's arguments, a JSON object; None counts as an empty one.
            server: the MCP server that answers, as our own configuration spells it.
            cwd: the folder that relative paths start from; the workspace by default.
        """
        values: object = {} if arguments is None else arguments
        reason, digest = examine(values)
        base = self._paths.root
        fault = _tool_fault(tool, server)
        if fault is None and reason is not None:
            fault = Fault("arguments", "", reason)
        if fault is None and cwd is not None:
            try:
                base = self._paths.base(cwd if type(cwd) is str else "", base)
            except PathError as error:
                fault = Fault("path", "cwd", error.message)
        if fault is not None:
            return Call(_name(tool), _server(server), fault=fault, digest=digest)
        return self._call(_name(tool), server, values, digest, _Tally(base))

    def _call(
        self, tool: str, server: str | None, values: object, digest: str, tally: _Tally
    ) -> Call:
        """Read one call; ``values`` are known to be JSON and not too deep."""
        if not isinstance(values, dict):
            fault = Fault("arguments", "", "the arguments are no object")
            return Call(tool, server, fault=fault, digest=digest)
        reading = Reading(self._paths, tally.base, tally.taken)
        nested: list[Call] = []
        failed: Fault | None = None
        entry = self.catalogs.lookup(tool, server)
        try:
            reading.read(entry, values)
            tally.count(reading)
            for label, value in reading.nested:
                nested += self._inside(label, value, reading, tally)
        except Unreadable as found:
            failed = found.fault
        return Call(
            tool,
            server,
            tuple(reading.paths),
            tuple(reading.urls),
            reading.opaque,
            tuple(reading.missing),
            failed,
            tuple(nested),
            reading.command,
            digest,
            values,
            # What nobody vouches for may never call an argument harmless (ADR-0007).
            None if entry is None or not entry.vouched else entry.arguments,
        )

    def _inside(self, label: str, value: object, reading: Reading, tally: _Tally) -> list[Call]:
        """Read the calls inside a call. The arguments' depth bounds how deep this goes."""
        items = value if isinstance(value, list) else [value]
        tally.calls += len(items)
        tally.levels += 1
        if tally.levels > MAX_CALL_LEVELS:
            reason = f"the calls stand one inside the other in more than {MAX_CALL_LEVELS} levels"
            raise Unreadable("arguments", label, reason)
        if tally.calls > MAX_NESTED_CALLS:
            reason = f"more than {MAX_NESTED_CALLS} calls stand in one call"
            raise Unreadable("arguments", label, reason)
        calls = []
        for n, item in enumerate(items):
            here = f"{label}[{n}]"
            if not isinstance(item, dict):
                raise Unreadable("arguments", here, "a call inside a call is an object")
            named = [key for key in _CALL_NAMES if key in item]
            held = [key for key in _CALL_ARGUMENTS if key in item]
            if len(named) != 1 or len(held) > 1:
                raise Unreadable("arguments", here, "it is not clear which tool is called, and how")
            for key in item.keys() - {*named, *held}:
                reading.guess(f"{here}.{clean(key)}", key, item[key])
            tool = item[named[0]]
            inner = item[held[0]] if held else None
            inner = {} if inner is None else inner
            fault = _tool_fault(tool, None)
            digest = canonical_digest(inner)
            if fault is not None:
                calls.append(Call(_name(tool), fault=fault, digest=digest))
            else:
                calls.append(self._call(tool, None, inner, digest, tally))
        tally.levels -= 1
        return calls


class _Tally:
    """What one call and all calls inside it hold together, and where their paths start."""

    __slots__ = ("base", "calls", "levels", "subjects", "taken")

    def __init__(self, base: str) -> None:
        self.base = base
        self.calls = 0
        self.levels = 0
        self.subjects = 0
        self.taken = Taken()

    def count(self, reading: Reading) -> None:
        self.subjects += len(reading.paths) + len(reading.urls)
        if self.subjects > MAX_SUBJECTS:
            raise Unreadable("arguments", "", TOO_MANY)


def _name(tool: object) -> str:
    return clean(tool, MAX_TOOL_CHARS) if type(tool) is str else ""


def _server(server: object) -> str | None:
    return clean(server, MAX_TOOL_CHARS) if type(server) is str else None


def _tool_fault(tool: object, server: object) -> Fault | None:
    """Return why a tool's name cannot be read, if it cannot."""
    reason = None
    if type(tool) is not str:
        reason = "the tool's name is no text"
    elif not tool.strip():
        reason = "the tool has no name"
    elif len(tool) > MAX_TOOL_CHARS:
        reason = f"the tool's name has more than {MAX_TOOL_CHARS} characters"
    elif _UNSEEN.search(tool):
        reason = "the tool's name holds characters that are not seen"
    elif tool.startswith("mcp__") and not tool.split("__", 2)[-1]:
        reason = "the tool's name stops after its server"
    elif server is not None and (type(server) is not str or not server or _UNSEEN.search(server)):
        reason = "the tool's server has no readable name"
    return None if reason is None else Fault("tool", "", reason)
