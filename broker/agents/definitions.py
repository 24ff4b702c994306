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
from dataclasses import dataclass
from functools import reduce
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


@dataclass(frozen=True, slots=True)
class Listing:
    """
    What a definition says of its subagent's tools: only ``names``, and none of ``without``.

    ``names`` is None where every tool is there that is not left out.
    """

    names: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()

    def both(self, other: Listing) -> Listing:
        """
        Return what two definitions of one kind say together.

        >>> Listing(("a", "b"), ("c",)).both(Listing(("b", "d"), ("e",)))
        Listing(names=('b',), without=('c', 'e'))
        """
        names = self.names if other.names is None else other.names
        if self.names is not None and other.names is not None:
            names = tuple(name for name in self.names if name in other.names)
        return Listing(names, (*self.without, *other.without))


Head = Mapping[str, str | tuple[str, ...]]


class Definitions:
    """
    Where the subagents of one run are defined.

    Args:
        folders: the folders that hold definitions, in any order.
        spelled: gives the broker's patterns for a tool as a definition names it; none for a
            tool that there is not.
        more: what is said of kinds that are defined elsewhere than in files.
        suffix: how the name of a definition's file ends.
        read: reads a file; by default one that lists its tools.
        deep: whether folders inside these folders count.

    >>> Definitions([], more={"look": Listing(("Read",))}).listed("look")
    Listing(names=('Read',), without=())
    """

    def __init__(
        self,
        folders: Iterable[Path],
        spelled: Callable[[str], Sequence[str]] = lambda tool: [tool],
        more: Mapping[str, Listing] | None = None,
        *,
        suffix: str = ".md",
        deep: bool = False,
        read: Callable[[Path, str], tuple[str, Listing]] | None = None,
    ) -> None:
        self._folders = tuple(folders)
        self._spelled = spelled
        self._more = dict(more or {})
        self._suffix = suffix
        self._deep = deep
        self._read = read or definition

    def listed(self, kind: str) -> Listing | None:
        """
        Return what the definitions of a kind of subagent say of its tools, if there are any.

        Raises:
            InputError: a definition cannot be read.
        """
        found = [said for name, said in self._more.items() if name.casefold() == kind.casefold()]
        for folder in self._folders:
            for path in self._files(folder):
                try:
                    name, said = self._read(path, self._suffix)
                except InputError as error:
                    raise InputError(f"the definition `{path}` {error}") from None
                if name.casefold() == kind.casefold():
                    found.append(said)
        spelled = (Listing(self._names(each.names), self._all(each.without)) for each in found)
        return reduce(Listing.both, spelled) if found else None

    def _names(self, tools: Sequence[str] | None) -> tuple[str, ...] | None:
        return None if tools is None else self._all(tools)

    def _all(self, tools: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for tool in tools for name in self._spelled(tool)))

    def _files(self, folder: Path) -> Sequence[Path]:
        try:
            found = folder.rglob("*") if self._deep else folder.iterdir()
            return sorted(path for path in found if path.name.endswith(self._suffix))
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise InputError(f"the definitions in `{folder}` cannot be read") from error


def definition(path: Path, suffix: str = ".md") -> tuple[str, Listing]:
    """
    Return the name of a definition's subagent, and what it says of the subagent's tools.

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
    tools = listed_in(head["tools"]) if "tools" in head else None
    names = None if tools is None or "*" in tools else tools
    return name, Listing(names, listed_in(head.get("disallowedTools", ())))


def listed_in(value: str | Sequence[str]) -> tuple[str, ...]:
    """
    Return the tools of a list, whether it is one text with commas or a list of texts.

    >>> listed_in("Read, Bash(git log, git diff)"), listed_in(["Read"])
    (('Read', 'Bash'), ('Read',))
    """
    given = _NARROWED.sub("", value).split(",") if isinstance(value, str) else value
    names = (_NARROWED.sub("", each).strip() for each in given)
    return tuple(name for name in names if name)


def head_lines(text: str) -> Sequence[str]:
    """Return the lines of a definition's head; none where there is no head."""
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    head = _HEAD.match(plain)
    return () if head is None else head[1].split("\n")


def read_head(text: str) -> Head:
    """
    Return the keys of a definition's head, and their values where they are texts or lists.

    >>> read_head("---\\nname: look\\ntools:\\n  - Read\\n---\\nLook around.")["tools"]
    ('Read',)

    Raises:
        InputError: it is not spelled in the way that all parsers read alike.
    """
    found: dict[str, str | tuple[str, ...]] = {}
    key, items = "", list[str]()
    for line in head_lines(text):
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
