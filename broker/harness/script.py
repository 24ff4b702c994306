"""
A scripted model: what it says and which tools it calls, turn by turn, from a file.

Decided here: how a script reads, and which lane of it a (sub)agent follows. A script makes a
run deterministic: the same script asks for the same calls, whatever the calls return.

A script is JSON or TOML::

    {"name": "fix the test",
     "lanes": {"main": [{"text": "I look at the test.",
                         "calls": [{"tool": "read", "arguments": {"path": "test_a.py"}}]}]}}

The first agent follows the lane ``main``. A subagent follows the lane that its prompt names,
as ``[[lane:NAME]]``. A call may say what becomes of it, in ``expect``: ``done``, ``failed``, or
``refused`` with, after a blank, the caveat that refuses. A run in which an expectation does not
hold ends with exit code 1.

A rule a maintainer keeps: an unknown key is an error, so that a misspelt one is not ignored.
"""

from __future__ import annotations

import json
import posixpath
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from errno import EFBIG
from typing import TYPE_CHECKING, Final, Protocol

from broker.capabilities.fs import FileSystem
from broker.errors import InputError
from broker.limits import MAX_SCRIPT_BYTES

if TYPE_CHECKING:
    from broker.harness.outcome import Result

MAIN: Final = "main"
_LANE: Final = re.compile(r"\[\[lane:([A-Za-z0-9_-]+)\]\]")
_EXPECT: Final = re.compile(r"done|failed|refused(?: [a-z]+)?")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """
    One tool call of the model; ``expect`` is empty when nothing is expected of it.

    ``fault`` says why its arguments cannot be read, where a model wrote what is none.
    """

    tool: str
    arguments: Mapping[str, object]
    expect: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """What the model says at once: a text, and calls to make in this order."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()


class Model(Protocol):
    """What the loop needs of a model: a script, or one that asks its provider."""

    def turn(self, results: Sequence[Result]) -> Turn | None:
        """Return the next turn, given the results of the last one; None when it is done."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script as read from its file."""

    name: str
    lanes: Mapping[str, tuple[Turn, ...]]

    def model(self, prompt: str | None = None, actor: str = MAIN) -> ScriptedModel:
        """
        Return the model that answers a prompt, whoever it is; without one, the first agent's.

        Raises:
            InputError: the prompt names no lane of this script.
        """
        if prompt is None:
            return ScriptedModel(self.lanes[MAIN])
        named = _LANE.search(prompt)
        lane = named.group(1) if named else ""
        if lane not in self.lanes:
            raise InputError(f"the script has no lane for this prompt: name one as [[lane:NAME]], "
                             f"of {', '.join(self.lanes)}")  # fmt: skip
        return ScriptedModel(self.lanes[lane])


@dataclass(slots=True)
class ScriptedModel:
    """A model that reads its turns off a lane, one after the other."""

    turns: tuple[Turn, ...]
    _next: int = field(default=0)

    def turn(self, results: Sequence[Result]) -> Turn | None:
        """Return the next turn of the lane, whatever the results were."""
        if self._next == len(self.turns):
            return None
        self._next += 1
        return self.turns[self._next - 1]


def load_script(fs: FileSystem, path: str) -> Script:
    """
    Read a script; a name that ends in ``.toml`` is TOML, any other JSON.

    Args:
        fs: where it lies.
        path: its absolute path; links are followed.

    Raises:
        InputError: it cannot be read, or says something this agent does not understand.
    """
    try:
        folder, name = posixpath.split(fs.real(path))
        content = fs.below(folder).read(name, limit_bytes=MAX_SCRIPT_BYTES)
        text = content.decode()
        data = tomllib.loads(text) if path.endswith(".toml") else json.loads(text)
    except OSError as error:
        if error.errno == EFBIG:
            raise InputError(
                f"the script `{path}` is larger than {MAX_SCRIPT_BYTES} bytes"
            ) from error
        reason = (error.strerror or "unreadable").lower()
        raise InputError(f"the script `{path}` cannot be read: {reason}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"the script `{path}` is not well-formed: {error}") from error
    return read_script(data, path)


def read_script(data: object, where: str = "script") -> Script:
    """
    Read a script from its data.

    Raises:
        InputError: it says something this agent does not understand; names the place.

    >>> read_script({"lanes": {"main": [{"text": "hello"}]}}).lanes["main"][0].text
    'hello'
    >>> read_script({"lanes": {"main": [{"test": "hello"}]}})
    Traceback (most recent call last):
      ...
    broker.errors.InputError: script: lanes.main[0] has no key `test`: text, calls
    """
    try:
        top = _table(data, ("name", "about", "lanes"), "the script")
        lanes = {}
        for name, turns in _table(top.get("lanes"), None, "lanes").items():
            at = f"lanes.{name}"
            lanes[name] = tuple(_turn(t, f"{at}[{i}]") for i, t in enumerate(_list(turns, at)))
        _table(lanes, None, "lanes", needed=MAIN)
        return Script(_text(top.get("name", ""), "name"), lanes)
    except InputError as error:
        raise InputError(f"{where}: {error.message}") from error


def _turn(data: object, at: str) -> Turn:
    table = _table(data, ("text", "calls"), at)
    calls = tuple(
        _call(call, f"{at}.calls[{i}]")
        for i, call in enumerate(_list(table.get("calls", []), f"{at}.calls"))
    )
    return Turn(_text(table.get("text", ""), f"{at}.text"), calls)


def _call(data: object, at: str) -> ToolCall:
    table = _table(data, ("tool", "arguments", "expect"), at)
    expect = _text(table.get("expect", ""), f"{at}.expect")
    if expect and not _EXPECT.fullmatch(expect):
        raise InputError(f"{at}.expect must be `done`, `failed`, `refused` or `refused CAVEAT`")
    return ToolCall(
        _text(table.get("tool"), f"{at}.tool"),
        _table(table.get("arguments", {}), None, f"{at}.arguments"),
        expect,
    )


def _table(
    data: object, keys: tuple[str, ...] | None, at: str, needed: str | None = None
) -> dict[str, object]:
    if not isinstance(data, dict):
        raise InputError(f"{at} must be a table")
    if needed is not None and needed not in data:
        raise InputError(f"{at} has no `{needed}`")
    for key in data:
        if keys is not None and key not in keys:
            raise InputError(f"{at} has no key `{key}`: {', '.join(keys)}")
    return data


def _list(data: object, at: str) -> list[object]:
    if not isinstance(data, list):
        raise InputError(f"{at} must be a list")
    return data


def _text(data: object, at: str) -> str:
    if not isinstance(data, str):
        raise InputError(f"{at} must be a text")
    return data
