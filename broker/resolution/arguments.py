"""
A call's arguments as a value: is it JSON, what is its digest, and where are its texts.

Decided here: what counts as readable arguments, their canonical digest, and which arguments
that no catalog knows look like a path, a URL or a switch that lifts limits. Not decided here:
what a known argument means (``broker.catalogs``) and where a path leads.

Rules a maintainer keeps: everything here is total over any Python value and never recurses;
an argument that is not known is only ever judged *more* strictly for what it looks like.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256
from json import JSONEncoder, dumps
from typing import Final, Literal, TypeGuard
from unicodedata import normalize

from broker.calls import Fault
from broker.limits import (
    MAX_ARGUMENT_DEPTH,
    MAX_ARGUMENT_VALUES,
    MAX_SUBJECT_CHARS,
    MAX_SUBJECTS,
)

# For values that are known to be no circle and not deep.
_ENCODER: Final = JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), check_circular=False
)
_WORDS: Final = (str, int, float, bool, type(None))
_LONG_BITS: Final = 10_000  # Python prints no decimal above some 14,000 bits
_NAME: Final = 80  # characters in the longest name that is compared with the lists below
_LABEL: Final = 300  # characters in the name of an argument's place
_SPLIT: Final = "split it into several calls"
_TOO_LARGE: Final = f"the call's arguments hold more than {MAX_ARGUMENT_VALUES} values: {_SPLIT}"
TOO_MANY: Final = f"the call touches more than {MAX_SUBJECTS} different places: {_SPLIT}"
TOO_LONG: Final = f"the call's places take more than {MAX_SUBJECT_CHARS} characters: {_SPLIT}"
_UNREADABLE: Final = b"arguments that cannot be written down"

# Names are compared in lower case, by their letters and digits alone.
_PATHS: Final = """
    path paths file files filepath filepaths filename filenames absolutepath relativepath fullpath
    targetpath sourcepath destpath destinationpath outputpath inputpath notebookpath repopath
    rootpath dirpath folderpath basepath dir dirs directory directories folder folders cwd workdir
    workingdir workingdirectory basedir rootdir destination dest dst source src targetfile
    outputfile inputfile outfile infile saveto localpath
"""
_URLS: Final = """
    url urls uri uris href link endpoint callback callbackurl webhook webhookurl baseurl apiurl
    proxy proxyurl redirect redirecturl redirecturi imageurl fileurl sourceurl targeturl
"""
# Names that end so speak of the same, but for those of languages that are no files' paths.
_PATH_ENDS: Final = ("path", "paths", "filename", "filenames", "directory", "directories")
_URL_ENDS: Final = ("url", "urls", "uri", "uris")
_NO_PATHS: Final = frozenset(["xpath", "xpaths", "jsonpath", "jsonpaths", "keypath", "keypaths"])
_SWITCHES: Final = """
    disablesandbox dangerouslydisablesandbox nosandbox bypasssandbox skipsandbox withoutsandbox
    unsandboxed disablelimits dangerouslyskippermissions skippermissions bypasspermissions
    withescalatedpermissions escalatedpermissions requireescalated runoutsidesandbox
"""
_PATH_NAMES: Final = frozenset(_PATHS.split())
_URL_NAMES: Final = frozenset(_URLS.split())
_SWITCH_NAMES: Final = frozenset(_SWITCHES.split())
_PATH_LOOK: Final = re.compile(r"(?:/|~/|\.\.?/|\.\.$|[A-Za-z]:[\\/]|\\\\)[^\n]*", re.DOTALL)
_URL_LOOK: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s]*")

Look = Literal["path", "url", "text"]


class Unreadable(Exception):
    """Carries a fault from where an argument is read to where the call is put together."""

    def __init__(
        self, kind: Literal["arguments", "path", "url"], argument: str, reason: str
    ) -> None:
        super().__init__(reason)
        self.fault = Fault(kind, argument, reason)


class Taken:
    """
    What the paths and URLs of one call, and of all calls inside it, take: characters, spelled out.

    One long folder and ten thousand short names in it would fill any memory.
    """

    __slots__ = ("chars",)

    def __init__(self) -> None:
        self.chars = 0


def examine(arguments: object) -> tuple[str | None, str]:
    """
    Return why a value cannot be a call's arguments (None when it can), and its digest.

    >>> examine({"path": "src/a.py"})[0]
    >>> examine({1: "x"})[0]
    'an argument has a name that is no text'
    """
    reason, plain, deep = _walk(arguments)
    if reason is not None:
        return reason, sha256(_UNREADABLE).hexdigest()
    if plain:
        text = _ENCODER.encode(arguments)
    else:
        text = _canonical(arguments)
    if deep:
        reason = f"the arguments are nested deeper than {MAX_ARGUMENT_DEPTH} levels"
    return reason, sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def canonical_digest(arguments: object) -> str:
    """
    Return the hex SHA-256 of the arguments in canonical JSON (the order of RFC 8785).

    Total: what is not JSON, or is larger than a call's arguments may be, has the digest of a
    fixed text that is no JSON. Floats are written as Python prints them.

    >>> canonical_digest({"b": 1, "a": 2}) == canonical_digest({"a": 2, "b": 1})
    True
    """
    return examine(arguments)[1]


def _walk(value: object) -> tuple[str | None, bool, bool]:
    """Return what is wrong with a value, whether its plain JSON is canonical, and if it is deep."""
    plain = True
    deepest = count = 0
    stack: list[tuple[object, int]] = [(value, 1)]
    while stack:
        here, depth = stack.pop()
        count += 1
        kind = type(here)
        if kind is str:
            continue
        if isinstance(here, (dict, list)) and kind in (dict, list):
            deepest = max(deepest, depth)
            if count + len(stack) + len(here) > MAX_ARGUMENT_VALUES:
                return _TOO_LARGE, False, False
            if isinstance(here, dict):
                for key in here:
                    if type(key) is not str:
                        return "an argument has a name that is no text", False, False
                    plain = plain and key.isascii()
                stack += [(v, depth + 1) for v in here.values()]
            else:
                stack += [(v, depth + 1) for v in here]
        elif kind not in _WORDS:
            named = clean(kind.__name__)
            return f"the arguments hold a `{named}`, which JSON has no word for", False, False
        elif isinstance(here, int) and here.bit_length() > _LONG_BITS:
            plain = False
    deep = deepest > MAX_ARGUMENT_DEPTH
    return None, plain and not deep, deep


def _canonical(value: object) -> str:
    """Write a value whose keys need the order of UTF-16, or that holds very long numbers."""
    # A marker stands for text that is already written; everything else is still a value.
    out: list[str] = []
    stack: list[tuple[bool, object]] = [(False, value)]
    while stack:
        written, here = stack.pop()
        if written:
            out.append(str(here))
        elif isinstance(here, dict):
            todo: list[tuple[bool, object]] = [(True, "{")]
            for n, key in enumerate(sorted(here, key=_utf16)):
                todo.append((True, ("," if n else "") + dumps(key, ensure_ascii=False) + ":"))
                todo.append((False, here[key]))
            stack += reversed([*todo, (True, "}")])
        elif isinstance(here, list):
            todo = [(True, "[")]
            for n, item in enumerate(here):
                if n:
                    todo.append((True, ","))
                todo.append((False, item))
            stack += reversed([*todo, (True, "]")])
        elif isinstance(here, int) and here.bit_length() > _LONG_BITS:
            out.append(hex(here))
        else:
            out.append(dumps(here, ensure_ascii=False))
    return "".join(out)


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")


def leaves(value: object, label: str, name: str = "") -> Iterator[tuple[str, str, object]]:
    """
    Yield every value below lists and objects, in order: where it stands, the name it has, itself.

    >>> list(leaves({"a": ["x", {"b": 1}]}, "arg"))
    [('arg.a[0]', 'a', 'x'), ('arg.a[1].b', 'b', 1)]
    """
    if is_flat(value):  # as long lists are
        yield from ((f"{label}[{n}]", name, item) for n, item in enumerate(value))
        return
    stack: list[tuple[str, str, object]] = [(label, name, value)]
    while stack:
        here, called, item = stack.pop()
        if isinstance(item, dict):
            stack += [(clean(f"{here}.{key}", _LABEL), key, item[key]) for key in reversed(item)]
        elif isinstance(item, list):
            stack += [(f"{here}[{n}]", called, item[n]) for n in range(len(item) - 1, -1, -1)]
        else:
            yield here, called, item


def names(value: object) -> Iterator[str]:
    """
    Yield every name in the objects below a value.

    >>> sorted(names({"a": [{"b": 1}]}))
    ['a', 'b']
    """
    stack = [] if is_flat(value) else [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            yield from item
            stack += item.values()
        elif isinstance(item, list):
            stack += item


def is_flat(value: object) -> TypeGuard[list[str]]:
    """
    Whether a value is a list of texts and of nothing else.

    >>> is_flat(["a", "b"]), is_flat(["a", 1]), is_flat("a")
    (True, False, False)
    """
    return type(value) is list and {*map(type, value)} == {str}


def look(name: str, text: str) -> Look:
    """
    Return what an argument that no catalog knows looks like, by its name and by its text.

    >>> look("file_path", "a.py"), look("note", "../x"), look("x", "https://a.example/")
    ('path', 'path', 'url')
    >>> look("query", "how to"), look("url", "https://a.example/")
    ('text', 'url')
    """
    named = _named(name) if len(name) < _NAME else "text"
    if "://" in text and _URL_LOOK.fullmatch(text):
        # A tool that takes it for a path after all would tidy it first, and climb.
        return "path" if named == "path" and ".." in text else "url"
    if named == "url" or text[:5].lower() == "file:":
        return "url"
    if named == "path" or _PATH_LOOK.fullmatch(text):
        return "path"
    return "text"


@lru_cache(maxsize=1_024)
def _named(name: str) -> Look | Literal["switch"]:
    plain = "".join(filter(str.isalnum, normalize("NFKC", name).lower()))
    if plain in _SWITCH_NAMES:
        return "switch"
    if plain in _URL_NAMES or plain.endswith(_URL_ENDS):
        return "url"
    if plain in _NO_PATHS:
        return "text"
    return "path" if plain in _PATH_NAMES or plain.endswith(_PATH_ENDS) else "text"


def lifts_limits(name: str, value: object) -> bool:
    """
    Whether an argument that no catalog knows is a switch that is on and lifts limits.

    >>> lifts_limits("disable_sandbox", True), lifts_limits("disable_sandbox", False)
    (True, False)
    """
    if value is None or value is False:
        return False
    return len(name) < _NAME and _named(name) == "switch"


def clean(text: str, most: int = 200) -> str:
    """
    Return text that can be written down: no half characters, and not without end.

    >>> clean("a" * 300, 3)
    'aaa…'
    """
    if len(text) > most:
        text = text[:most] + "…"
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
