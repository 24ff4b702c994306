"""
Where a Windows path leads, read from its text alone.

Decided here: which place a path names under the rules of Windows: two separators, drives,
letters whose case does not count, closing dots and blanks that are dropped, and the spellings
that name devices, streams, other disks or short aliases. Links are not followed: this reading
serves a broker that is not on the machine it decides for.

Rules a maintainer keeps: an alias that cannot be resolved from the text is refused, never
mapped back; places are compared without regard to letter case (``folded``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from broker.calls import Access, PathSubject
from broker.errors import InputError
from broker.limits import MAX_PATH_CHARS
from broker.resolution.places import in_settings, takes_settings
from broker.resolution.realpaths import (
    NOTHING,
    Kinds,
    PathError,
    check_folded,
    in_git,
    shown,
    under_any,
)

_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")
_RESERVED: Final = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|clock\$|com[0-9\u00b9\u00b2\u00b3]"
    r"|lpt[0-9\u00b9\u00b2\u00b3])(?:[ .:].*)?",
    re.IGNORECASE | re.DOTALL,
)
_SHORT: Final = re.compile(r"(?=[^.]{2,8}(?:\.|$))[^.]*~[0-9]+(?:\.[^.]{0,3})?")
_UNLAWFUL: Final = re.compile(r'[<>"|?*\x00-\x1f]')


def is_windows(workspace: str) -> bool:
    r"""
    Whether a workspace is spelled the Windows way, with a drive.

    >>> is_windows("C:\\ws"), is_windows("/ws")
    (True, False)
    """
    return _DRIVE.match(workspace) is not None


class WindowsPaths:
    r"""
    A workspace on a Windows machine that is known by its paths' text only.

    >>> w = WindowsPaths("C:\\ws")
    >>> w.subject("path", "c:\\WS\\Src\\A.py", w.root, "read").places
    ('Src/A.py/',)

    Raises:
        InputError: the workspace's spelling is not a plain absolute path.
    """

    folded: Final = True

    def __init__(self, workspace: str, own: Sequence[str] = ()) -> None:
        try:
            drive, parts = self._read(workspace, None)
        except PathError as error:
            raise InputError(f"the workspace `{shown(workspace)}`: {error}") from None
        self._drive, self._parts = drive, parts
        self.root = _join(drive, parts)
        self._own = tuple(o.replace("\\", "/").rstrip("/").lower() for o in own)

    def begin(self) -> WindowsPaths:
        """Return a reader of paths for one call: itself, since the text is all there is."""
        return self

    def base(self, folder: str, below: str) -> str:
        """
        Return the folder that relative paths start from.

        Raises:
            PathError: the folder's spelling cannot be read.
        """
        return _join(*self._read(folder, below))

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
        Read one path, as ``broker.resolution.places.DiskReading.subject`` does on a real disk.

        Raises:
            PathError: it cannot be read.
        """
        drive, parts = self._read(text, base)
        resolved = _join(drive, parts)
        write = access == "write"
        deep = bool(below)  # whether a folder is there is not told by a text
        own = under_any(resolved.lower(), self._own, above=write or deep)
        n = len(self._parts)
        folded = [p.lower() for p in parts[:n]]
        if drive != self._drive or folded != [p.lower() for p in self._parts]:
            return PathSubject(
                argument, text, access, (), resolved, own=own, folded=True, below=deep
            )
        place = "".join(part + "/" for part in parts[n:])
        return PathSubject(
            argument,
            text,
            access,
            (place,),
            resolved,
            inner_git=write and in_git(place),
            own=own or (write and (in_settings(place, True) or takes_settings((place,), below))),
            folded=True,
            below=deep,
        )

    def _read(self, text: str, base: str | None) -> tuple[str, list[str]]:
        """Return the drive and the tidied components of a path."""
        if not text:
            raise PathError("an empty path names nothing")
        if len(text) > MAX_PATH_CHARS:
            raise PathError(f"the path has {len(text)} characters, more than {MAX_PATH_CHARS}")
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise PathError("half a surrogate pair cannot be a file's name") from None
            check_folded(text)
        if text[0] in "~$%":
            raise PathError(f"a leading `{text[0]}` is a shell's word: spell the path out")
        path = text.replace("\\", "/")
        if path.startswith(("//?/", "//./", "/??/")):
            raise PathError("a device spelling names no plain file")
        if path.startswith("//"):
            server = path[2:].partition("/")[0]
            return f"//{shown(server)}", _tidy([], path[2 + len(server) :])
        if _DRIVE.match(path):
            return path[0].upper() + ":", _tidy([], path[2:])
        if path[1:2] == ":" and path[0].isascii() and path[0].isalpha():
            raise PathError("a drive without a slash means that drive's own current folder")
        if base is None:
            raise PathError("this is not an absolute path")
        mark = base.find("/", 2)  # a drive has two characters, a network place begins with two
        drive, below = (base, "") if mark < 0 else (base[:mark], base[mark:])
        if path[0] == "/":
            return drive, _tidy([], path)
        return drive, _tidy([p for p in below.split("/") if p], path)


def _join(drive: str, parts: Sequence[str]) -> str:
    return "/".join([drive, *parts])


def _tidy(parts: list[str], path: str) -> list[str]:
    """Add a path's components to those of the folder it starts from."""
    for part in path.split("/"):
        if part == "..":
            if parts:
                parts.pop()
        elif part not in ("", "."):
            parts.append(_component(part))
    return parts


def _component(part: str) -> str:
    """Return a component as the disk keeps it."""
    if ":" in part:
        raise PathError(f"`{shown(part)}` names a stream of a file, or another drive")
    if _RESERVED.fullmatch(part):
        raise PathError(f"`{shown(part)}` is a device in every folder")
    if _UNLAWFUL.search(part):
        raise PathError(f"`{shown(part)}` holds a character that no name may hold")
    kept = part.rstrip(" .")
    if not kept:
        raise PathError(f"`{shown(part)}` is only dots and blanks, which systems read differently")
    if _SHORT.fullmatch(kept):
        raise PathError(f"`{shown(part)}` is a short alias that may stand for another name")
    return kept
