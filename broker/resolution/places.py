"""
A path argument as a subject: where it leads on the disk, and what follows from that.

Decided here: which places of one path must fit (the resolved one, and for a write or a path
with ``..`` the one as spelled too), and whether it reaches inside ``.git``, into the broker's
own folders, or to a file with a second name. Not decided here: what fits (``broker.authorize``)
and how links are followed (``broker.resolution.realpaths``).

Rules a maintainer keeps: a place outside the workspace is no place at all; both spellings of
the workspace count as inside; nothing is kept from one call to the next.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from broker.calls import Access, PathSubject
from broker.errors import InputError
from broker.limits import MAX_PATH_CHARS
from broker.resolution.realpaths import (
    ABSENT,
    NOTHING,
    SHARED,
    VIEWS,
    Kinds,
    PathError,
    PathWalk,
    check_text,
    climbs,
    in_git,
    inside,
    lexical,
    shown,
    under_any,
)

SETTINGS: Final = ".broker"  # the workspace's own settings, which no tool writes
_MAX_PREFIXES: Final = 64
# A name that every tool and every system reads alike, so that it needs no second thought.
_PLAIN: Final = re.compile(r"[0-9A-Za-z_-][0-9A-Za-z_.,+=@-]{0,254}")
_MAX_FOLDER_CHARS: Final = MAX_PATH_CHARS - 255  # with such a name the path is not too long
_SECOND_NAME: Final = "the file has a second name, and writing here changes it there too"


class PathReader(Protocol):
    """Reads the paths of one call: on a real disk, or from their text alone."""

    def subject(
        self,
        argument: str,
        text: str,
        base: str,
        access: Access,
        *,
        last: bool = True,
        below: Kinds = NOTHING,
    ) -> PathSubject:
        """Read one path."""


class Paths(Protocol):
    """Where relative paths start, and a reader for each call."""

    root: str

    def begin(self) -> PathReader:
        """Return a reader for one call."""

    def base(self, folder: str, below: str) -> str:
        """Return the absolute folder that relative paths start from."""


class DiskPaths:
    """
    The file system of this machine, seen from one workspace.

    Args:
        workspace: the folder that patterns are relative to; it must exist.
        own: absolute folders of the broker, links already followed.

    Raises:
        InputError: the workspace is not a folder.
    """

    def __init__(self, workspace: str, own: Sequence[str] = ()) -> None:
        self.spelled = os.path.abspath(workspace)
        try:
            self.root = os.path.realpath(self.spelled, strict=True)
            self._identity = _identity(self.root)
        except (OSError, ValueError) as error:
            raise InputError(
                f"the workspace `{shown(workspace)}` cannot be opened: {error}"
            ) from None
        if not os.path.isdir(self.root):
            raise InputError(f"the workspace `{shown(workspace)}` is not a folder")
        self.folded = _folds_case(self.root)
        self.own = tuple(own)

    def begin(self) -> DiskReading:
        """
        Return a reader of paths for one call.

        Raises:
            PathError: the workspace is not the folder any more that it was.
        """
        try:
            found = _identity(self.root)
            same = found == self._identity and (
                self.spelled == self.root or _identity(self.spelled) == found
            )
        except OSError:
            same = False
        if not same:
            raise PathError("the workspace folder was moved or replaced since the session began")
        return DiskReading(self)

    def base(self, folder: str, below: str) -> str:
        """
        Return the folder that relative paths start from, itself read relative to ``below``.

        Raises:
            PathError: the folder's spelling cannot be read.
        """
        check_text(folder)
        return folder if folder[0] == "/" else f"{below}/{folder}"


class _Folder(NamedTuple):
    """
    A folder of the workspace in which a plain name needs one look and no walk.

    It is spelled as it is found: no link and no step up leads to it. It lies outside of ``.git``,
    of the settings and of what is another thing for each who asks, and neither in nor above a
    folder of the broker's own.
    """

    start: str  # of what is in it, absolute, with a closing slash
    place: str
    there: bool  # or else it is absent, with all that would be in it
    parts: int  # of a path to what is in it


class DiskReading:
    """
    Reads the paths of one call; from ``DiskPaths.begin``.

    A call may hold many thousands of paths, and then most share a folder. So the folders that
    its paths came through are kept while it is read.
    """

    __slots__ = ("_base", "_disk", "_folders", "_walk")

    def __init__(self, disk: DiskPaths) -> None:
        self._disk = disk
        self._walk = PathWalk(disk.root, disk.spelled)
        self._base = ""
        self._folders: dict[str, _Folder] = {}  # by their spelling from there

    def subject(
        self,
        argument: str,
        text: str,
        base: str,
        access: Access,
        *,
        last: bool = True,
        below: Kinds = NOTHING,
    ) -> PathSubject:
        """
        Read one path.

        Args:
            argument: where in the call's arguments the path stands.
            text: the path as the tool gets it.
            base: the absolute folder that a relative path starts from.
            access: whether the tool may change what it finds.
            last: whether the tool follows a link in the last component.
            below: what it has to be for the tool to reach all that lies below it, too.

        Raises:
            PathError: it cannot be read.
        """
        if base != self._base:  # so it is for a call's first path, and most have no other
            self._base, self._folders = base, {}
            return self._whole(argument, text, base, access, last=last, below=below)
        cut = text.rfind("/") + 1
        folder = self._folders.get(text[:cut])
        if folder is None:
            subject = self._whole(argument, text, base, access, last=last, below=below)
            self._keep(text, cut, subject)
            return subject
        name = text[cut:]
        if _PLAIN.fullmatch(name):
            start, place, there, parts = folder
            resolved = start + name
            kind = self._walk.enter(resolved, parts, there=there)
            if kind is not None:
                return PathSubject(
                    argument,
                    text,
                    access,
                    (f"{place}{name}/",),
                    resolved,
                    False,
                    False,
                    self._disk.folded,
                    "",
                    kind in below,
                )
        return self._whole(argument, text, base, access, last=last, below=below)

    def _keep(self, text: str, cut: int, subject: PathSubject) -> None:
        """Keep the folder of a path that was just read, if it is one to be kept."""
        disk, walk = self._disk, self._walk
        above, _, name = subject.resolved.rpartition("/")
        above = above or "/"
        place = inside(above, disk.root)
        path = text if text[0] == "/" else f"{self._base}/{text}"
        if (
            place is not None
            and text[cut:] == name
            and name
            and not climbs(path)
            and lexical(path) == subject.resolved
            and not in_git(place)
            and not in_settings(place, disk.folded)
            and not under_any(above, disk.own, above=True)
            and above[:5] not in VIEWS
            and cut <= _MAX_FOLDER_CHARS
        ):
            start = subject.resolved[: -len(name)]
            self._folders[text[:cut]] = _Folder(start, place, walk.passed(above), walk.parts)

    def _whole(
        self, argument: str, text: str, base: str, access: Access, *, last: bool, below: Kinds
    ) -> PathSubject:
        """Read a path from its beginning to its end."""
        check_text(text)
        disk = self._disk
        path = text if text[0] == "/" else f"{base}/{text}"
        resolved = self._walk.follow(path, last=last)
        kind = self._walk.kind
        write = access == "write"
        deep = kind in below
        own = under_any(resolved, disk.own, above=write or deep)
        named = _named(resolved)
        place = inside(resolved, disk.root)
        if place is None:
            return PathSubject(argument, text, access, (), named, own=own, below=deep)
        places: tuple[str, ...] = (_named(place),)
        if path != resolved and (write or climbs(text) or climbs(base)):
            spelled = self._as_spelled(lexical(path))
            if spelled is None:
                return PathSubject(argument, text, access, (), named, own=own, below=deep)
            if spelled != place:
                places = (spelled, *places)
        if not write:
            return PathSubject(
                argument, text, access, places, named, own=own, folded=disk.folded, below=deep
            )
        own = own or (deep and takes_settings(places, below))
        shared = last and kind == SHARED
        return PathSubject(
            argument,
            text,
            access,
            () if shared else places,
            named,
            inner_git=any(map(in_git, places)),
            own=own or any(in_settings(p, disk.folded) for p in places),
            folded=disk.folded,
            why=_SECOND_NAME if shared else "",
            below=deep,
        )

    def _as_spelled(self, path: str) -> str | None:
        """Return the place of a path read as text, or None when that lies outside."""
        for root in (self._disk.root, self._disk.spelled):
            place = inside(path, root)
            if place is not None:
                return place
        # The workspace may be reached through another link, as `/tmp` is on some systems.
        parts = path.split("/")
        for n in range(2, min(len(parts) + 1, _MAX_PREFIXES)):
            if self._walk.follow("/".join(parts[:n])) == self._disk.root:
                return "".join(part + "/" for part in parts[n:])
        return None


def _identity(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _folds_case(root: str) -> bool:
    """Whether the disk takes a name in other letters for the same name."""
    head, name = os.path.split(root)
    other = name.swapcase()
    if other == name:
        return False
    try:
        return os.path.samefile(root, os.path.join(head, other))
    except OSError:
        return False


def in_settings(place: str, folded: bool) -> bool:
    """
    Whether a place lies in the folder of the workspace's own settings, or is that folder.

    >>> in_settings(".broker/catalogs/x.toml/", False), in_settings(".brokers/x/", False)
    (True, False)
    """
    return (place.lower() if folded else place).startswith(SETTINGS + "/")


def takes_settings(places: Iterable[str], below: Kinds) -> bool:
    """
    Whether a write of all below a place is one of the workspace, settings included.

    A file that is put into the workspace's folder takes nothing along.

    >>> from broker.resolution.realpaths import FOLDERS, TREES
    >>> takes_settings([""], TREES), takes_settings(["src/"], TREES), takes_settings([""], FOLDERS)
    (True, False, False)
    """
    return ABSENT in below and "" in places


def _named(path: str) -> str:
    """Return a name from the disk as text that can be written down; most already are."""
    if path.isascii():
        return path
    try:
        path.encode()
    except UnicodeEncodeError:
        return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return path
