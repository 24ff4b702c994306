"""
The tools that the definition of a subagent lists, in files of Markdown with a head of YAML.

Decided here: which files define a kind of subagent, how their head is read, and what comes of
several definitions of one kind. Not decided here: where an agent looks for them and how it
spells its tools (its own room), what follows from a list (``broker.agents.children``).

Agents read the head with parsers of YAML that differ among each other, so only what all of them
read alike is read here: a key to a line, and for its value a text, a list on the same line, or a
list of lines. Everything else is an error, which names the file.

Rules a maintainer keeps: a file is read when its subagent is started, and not again; what cannot
be read may define any kind, so it refuses; of several definitions of a kind, all hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from broker.agents.settingsfile import plain_text
from broker.errors import InputError

_HEAD: Final = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*$", re.DOTALL | re.MULTILINE)
_KEY: Final = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+(.*))?")
_ITEM: Final = re.compile(r"[ \t]*-[ \t]+(.*)")
_COMMENT: Final = re.compile(r"(?:^|[ \t])#.*")
_NARROWED: Final = re.compile(r"\([^()]*\)")  # `Bash(git *)`: the tool, and a rule of the agent's
_READ: Final = ("name", "tools", "disallowedTools")  # the keys whose values count

Head = Mapping[str, str | tuple[str, ...]]


class Definitions:
    """
    Where the subagents of one run are defined.

    Args:
        folders: the folders that hold definitions, in any order.
        spelled: gives the broker's patterns for a tool as a definition names it; none for a
            tool that there is not.
        more: the tools of kinds that are defined elsewhere than in files.
        suffix: how the name of a definition's file ends.
        deep: whether folders inside these folders count.

    >>> Definitions([Path("/nowhere")], lambda tool: [tool], {"look": ["Read"]}).listed("look")
    ('Read',)
    """

    def __init__(
        self,
        folders: Iterable[Path],
        spelled: Callable[[str], Sequence[str]] = lambda tool: [tool],
        more: Mapping[str, Sequence[str] | None] | None = None,
        *,
        suffix: str = ".md",
        deep: bool = False,
    ) -> None:
        self._folders = tuple(folders)
        self._spelled = spelled
        self._more = dict(more or {})
        self._suffix = suffix
        self._deep = deep

    def listed(self, kind: str) -> tuple[str, ...] | None:
        """
        Return the tools that a kind of subagent is defined with, or None where no list is given.

        Raises:
            InputError: a definition cannot be read.
        """
        found = [tools for name, tools in self._more.items() if name.casefold() == kind.casefold()]
        for folder in self._folders:
            for path in self._files(folder):
                try:
                    name, tools = definition(path, self._suffix)
                except InputError as error:
                    raise InputError(f"the definition `{path}` {error}") from None
                if name.casefold() == kind.casefold():
                    found.append(tools)
        lists = [self._names(tools) for tools in found if tools is not None]
        if not lists:
            return None
        first, *others = lists
        return tuple(name for name in first if all(name in other for other in others))

    def _names(self, tools: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for tool in tools for name in self._spelled(tool)))

    def _files(self, folder: Path) -> Sequence[Path]:
        try:
            found = folder.rglob("*") if self._deep else folder.iterdir()
            return sorted(path for path in found if path.name.endswith(self._suffix))
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise InputError(f"the definitions in `{folder}` cannot be read") from error


def definition(path: Path, suffix: str = ".md") -> tuple[str, tuple[str, ...] | None]:
    """
    Return the name of a definition's subagent, and the tools that it lists, if it lists any.

    Raises:
        InputError: it cannot be read, or not in one way only.
    """
    text = plain_text(path)
    if text is None:
        raise InputError("cannot be read, or is too long")
    head = read_head(text)
    named = head.get("name", "")
    stem = path.name.removesuffix(suffix).removesuffix(".agent")
    name = named if isinstance(named, str) and named else stem
    if "tools" not in head:
        return name, None
    tools = listed_in(head["tools"])
    without = listed_in(head.get("disallowedTools", ()))
    return name, None if "*" in tools else tuple(tool for tool in tools if tool not in without)


def listed_in(value: str | Sequence[str]) -> tuple[str, ...]:
    """
    Return the tools of a list, whether it is one text with commas or a list of texts.

    >>> listed_in("Read, Bash(git log, git diff)"), listed_in(["Read"])
    (('Read', 'Bash'), ('Read',))
    """
    given = _NARROWED.sub("", value).split(",") if isinstance(value, str) else value
    names = (_NARROWED.sub("", each).strip() for each in given)
    return tuple(name for name in names if name)


def read_head(text: str) -> Head:
    """
    Return the keys of a definition's head, and their values where they are texts or lists.

    >>> read_head("---\\nname: look\\ntools:\\n  - Read\\n---\\nLook around.")["tools"]
    ('Read',)

    Raises:
        InputError: it is not spelled in the way that all parsers read alike.
    """
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    head = _HEAD.match(plain)
    if head is None:
        return {}
    found: dict[str, str | tuple[str, ...]] = {}
    key, items = "", list[str]()
    for line in head[1].split("\n"):
        bare = _COMMENT.sub("", line)
        if not bare.strip():
            continue
        item = _ITEM.fullmatch(bare)
        if key in _READ and item is not None and (items or not found[key]):
            items.append(_text(item[1]))
            found[key] = tuple(items)
        elif key and key not in _READ and item is not None:
            continue
        elif bare[0] not in " \t":
            named = _KEY.fullmatch(bare)
            if named is None or named[1] in found:
                raise InputError(f"has a line that may be read in two ways: `{line[:60]}`")
            key, items = named[1], []
            found[key] = _value(key, named[2] or "")
        elif not key or key in _READ:
            raise InputError(f"has a line that may be read in two ways: `{line[:60]}`")
    for key in _READ:
        if found.get(key) == "":
            raise InputError(f"says nothing behind `{key}`")
    return found


def _value(key: str, spelled: str) -> str | tuple[str, ...]:
    value = spelled.strip()
    if key not in _READ:
        return "-"  # whatever it is, it is not looked at
    if value.startswith("[") and value.endswith("]"):
        inner = value[1:-1].strip()
        return tuple(_text(each) for each in inner.split(",")) if inner else ()
    return _text(value)


def _text(spelled: str) -> str:
    """Return what a text says, in quotes or not."""
    value = spelled.strip()
    quoted = value[:1] in ("'", '"')
    if quoted and (len(value) < 2 or value[-1] != value[0] or value[0] in value[1:-1]):
        raise InputError(f"has a text that is not quoted plainly: `{value[:60]}`")
    value = value[1:-1] if quoted else value
    if "\\" in value or (not quoted and value[:1] in tuple("&*!|>%@`{}[]?,") and value != "*"):
        raise InputError(f"has a text that may be read in two ways: `{value[:60]}`")
    return value
