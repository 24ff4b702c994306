"""
What a tool call touches, and what was decided about it.

A ``Call`` is a tool's name, and the subjects that its arguments name: paths and URLs, already
read the way the kernel and the network will read them (``broker.resolve`` does that, with a
catalog and the real file system). Nothing here looks at the world.

Rules a maintainer keeps: nothing changes once it is made; a call that could not be read is
still a ``Call``, with a ``Fault`` or a missing subject in it, so that deciding stays total.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, NoReturn, Protocol

from broker.limits import MATCH_SETUP_CHARS, MAX_QUICK_CHARS

Access = Literal["read", "write"]
Enforcement = Literal["kernel", "gate", "none"]
Shape = Literal["nothing", "read", "write", "host", "other"]


class PathSubject(NamedTuple):
    """
    One path that a call reads or writes. A named tuple, since one call may hold many thousands.

    ``places`` are the spellings that must *all* fit: the resolved place and, for a write or a
    path with ``..``, also the place as spelled. A place is relative to the workspace root, its
    components joined by ``/`` **with a closing slash** (``src/a.py/``); the root itself is
    the empty string. An empty ``places`` lies outside the workspace and fits no pattern.

    ``below`` says that the call touches whatever lies below the places too, as searching,
    moving and removing a folder do: then a list of patterns must cover each place with
    everything below it, however deep.

    ``inner_git`` says that a write reaches inside a ``.git`` folder; ``own`` that the path
    lies in the broker's own folders; ``folded`` that letter case does not count here; ``why``
    says in words why ``places`` is empty, when it is not just that the path leads outside.
    """

    argument: str
    spelled: str
    access: Access
    places: tuple[str, ...]
    resolved: str = ""
    inner_git: bool = False
    own: bool = False
    folded: bool = False
    why: str = ""
    below: bool = False


@dataclass(frozen=True, slots=True)
class UrlSubject:
    """
    One URL that a call reaches.

    ``keys`` are the spellings that host patterns are matched against, any of which may fit:
    ``host`` when the port is the scheme's default, and ``host:port`` always. An empty
    ``keys`` (a scheme that is not of the web) fits no pattern.
    """

    argument: str
    spelled: str
    scheme: str
    host: str
    port: int
    keys: tuple[str, ...]


class Label(Protocol):
    """What a catalog that is vouched for says of one argument; see ``broker.catalogs.entry``."""

    @property
    def role(self) -> str:
        """What the argument means."""

    @property
    def fields(self) -> Mapping[str, Label] | None:
        """The labels of what is inside it, when it is an object or a list of them."""


@dataclass(frozen=True, slots=True)
class TypedText:
    """
    The line that a person typed, and the digest that a ticket carries of it.

    The digest is the line's own, or a salted one where a receipt conceals the line: whoever makes
    one vouches that they belong together. Made in ``broker.intent`` and ``broker.sessions``.
    """

    text: str
    digest: str


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a call cannot be read at all: it is refused under every ticket."""

    kind: Literal["tool", "arguments", "path", "url"]
    argument: str
    reason: str


@dataclass(frozen=True, slots=True)
class Call:
    """
    A tool call as the ticket sees it.

    ``opaque`` means that the call's effects cannot be told from its arguments (a shell, an
    unknown tool). ``missing`` names arguments that would hold a path or URL and are absent.
    ``server`` is the MCP server's name as *our* configuration spells it, when it is known.
    ``digest`` is the hex SHA-256 of the canonical arguments; it plays no part in deciding.
    ``arguments`` are those very arguments, for rules that look into them: whoever hands them in
    gives them away and changes nothing in them afterwards. ``labels`` say what a catalog that is
    vouched for knows of them. Both are held and not copied, so that a call under a ticket
    without such rules costs nothing for them; the digest stands for them when calls are compared.
    ``shape`` and ``spot`` follow from the rest: when the call touches nothing, or one place or
    one host and nothing about it needs a second look, they say which. Most calls are so.
    """

    tool: str
    server: str | None = None
    paths: tuple[PathSubject, ...] = ()
    urls: tuple[UrlSubject, ...] = ()
    opaque: bool = False
    missing: tuple[str, ...] = ()
    fault: Fault | None = None
    nested: tuple[Call, ...] = ()
    command: str | None = None
    digest: str = ""
    arguments: Mapping[str, object] | None = field(default=None, compare=False, repr=False)
    labels: Mapping[str, Label] | None = field(default=None, compare=False, repr=False)
    shape: Shape = field(init=False, compare=False, repr=False)
    spot: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        shape, spot = _shape(self)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "spot", spot)

    def cost(self) -> int:
        """Return how many calls this one debits: itself and every call inside it."""
        return 1 + sum(c.cost() for c in self.nested)

    def extent(self) -> int:
        """Return what comparing all its names and places with one pattern takes, in characters."""
        texts = [self.tool, *[place for subject in self.paths for place in subject.places]]
        own = len(texts) * MATCH_SETUP_CHARS + sum(map(len, texts))
        return own + sum(c.extent() for c in self.nested)

    def values(self) -> int:
        """Return how many values its arguments hold, in lists and objects too."""
        if self.arguments is None:
            return 1
        found = 1 + len(self.arguments)
        stack = [value for value in self.arguments.values() if type(value) in _HOLDERS]
        while stack:
            here = stack.pop()
            inner = here.values() if isinstance(here, dict) else here if type(here) is list else ()
            found += len(inner)
            stack += [value for value in inner if type(value) in _HOLDERS]
        return found


_HOLDERS: Final = frozenset((dict, list))


_FEW: Final = 4  # subjects that are gone through without an index


class Look:
    """What a condition may look at beside a value: the call, and the line that a person typed."""

    __slots__ = ("_paths", "_urls", "call", "line")

    def __init__(self, call: Call, line: str | None = None) -> None:
        self.call = call
        self.line = line
        self._paths: dict[object, list[PathSubject]] | None = None
        self._urls: dict[object, list[UrlSubject]] | None = None

    def paths(self, label: str, value: str) -> list[PathSubject]:
        """Return the paths that were read at an argument; a call may hold very many."""
        few = self.call.paths
        if len(few) <= _FEW and (found := [path for path in few if path.argument == label]):
            return found
        if self._paths is None:
            self._paths = {}
            for path in self.call.paths:
                for key in (path.argument, _element(path.argument, path.spelled)):
                    self._paths.setdefault(key, []).append(path)
        return self._paths.get(label) or self._paths.get(_element(label, value), [])

    def urls(self, label: str, value: str) -> list[UrlSubject]:
        """Return the addresses that were read at an argument."""
        few = self.call.urls
        if len(few) <= _FEW and (found := [url for url in few if url.argument == label]):
            return found
        if self._urls is None:
            self._urls = {}
            for url in self.call.urls:
                for key in (url.argument, _element(url.argument, url.spelled)):
                    self._urls.setdefault(key, []).append(url)
        return self._urls.get(label) or self._urls.get(_element(label, value), [])


def _element(label: str, value: str) -> tuple[str, str]:
    """
    Return a key that is the same for all elements of a list that hold the same text.

    Such a text is read once, where it first stands, since it leads to the same place.

    >>> _element("paths[3]", "a") == _element("paths[0]", "a")
    True
    """
    parts = label.split("[")
    return "[".join([parts[0], *[part.lstrip("0123456789") for part in parts[1:]]]), value


def _shape(call: Call) -> tuple[Shape, str]:
    if call.opaque or call.missing or call.fault or call.nested:
        return "other", ""
    if call.server is not None and not call.tool.startswith(f"mcp__{call.server}__"):
        return "other", ""  # the tool's whole name is another than the one given
    if not call.paths and not call.urls:
        return "nothing", ""
    if len(call.paths) + len(call.urls) > 1:
        return "other", ""
    if call.urls:
        keys = call.urls[0].keys
        return ("host", keys[0]) if keys else ("other", "")
    path = call.paths[0]
    if path.own or path.inner_git or path.folded or len(path.places) != 1:
        return "other", ""
    if len(path.places[0]) > MAX_QUICK_CHARS:
        return "other", ""
    # Whoever allows by the beginning of a place alone allows all that lies below it as well,
    # so a path with `below` has this shape too.
    return path.access, path.places[0]


@dataclass(frozen=True, slots=True)
class Refusal:
    """
    Why a call was refused: the caveat's kind, the value at fault, and what to do instead.

    ``caveat`` is a caveat kind of ``broker.caveats`` or one of ``call`` (unreadable call),
    ``own`` (the broker's own files), ``enforcement``, ``opinion``, ``session``.
    """

    caveat: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class Decision:
    """
    Allow, or a refusal that names a caveat. Not a bool: ``if decision`` is an error.

    ``enforcement`` says what really stops the call from doing more: ``gate`` when its
    arguments were checked, ``kernel`` when a sandbox holds the same ticket, ``none`` when a
    person named a tool whose effects cannot be seen.
    """

    refusal: Refusal | None
    enforcement: Enforcement = "gate"

    @property
    def allowed(self) -> bool:
        """Whether the call may run."""
        return self.refusal is None

    def __bool__(self) -> NoReturn:
        raise TypeError("a Decision is not a bool: read `.allowed`, or call enforce(decision)")


ALLOW = Decision(None, "gate")
ALLOW_UNSEEN = Decision(None, "none")
ALLOW_SANDBOXED = Decision(None, "kernel")
