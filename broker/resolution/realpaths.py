"""
Where a path leads, read in the order in which the kernel reads it.

Decided here: the place that a spelled path reaches on this machine's disk. Links are followed
component by component, *before* a ``..`` that comes after them; what does not exist yet is
read from its deepest existing ancestor. A second reading, as plain text, is kept beside it
for the paths on which tools disagree. Not decided here: whether a place may be touched, and
what an argument means.

Rules a maintainer keeps: never tidy a path as text before its links are followed; never keep
an answer from one call to the next, because links change between calls; whatever cannot be
read is an error and never a guess.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Sequence
from typing import Final

from broker.errors import InputError
from broker.limits import MAX_LINK_HOPS, MAX_PATH_CHARS, MAX_PATH_STEPS

# What a process folder shows depends on who asks: the broker's own answer is not the tool's.
_PROCESS: Final = frozenset(
    [
        "root",
        "cwd",
        "exe",
        "fd",
        "fdinfo",
        "task",
        "map_files",
        "environ",
        "mem",
        "ns",
        "auxv",
        "attr",
    ]
)
_DEVICES: Final = frozenset(["fd", "stdin", "stdout", "stderr"])
# Letters that some disks leave out when they compare names, so that `.g<200c>it` is `.git`.
_UNSEEN: Final = {
    ord(c): None
    for c in "\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e"
    "\u206a\u206b\u206c\u206d\u206e\u206f\ufeff"
}
_NO_STEP: Final = frozenset(["", "."])
VIEWS: Final = frozenset(["/dev", "/proc"])  # what they show depends on who asks

# What an entry is. A link is none of these: it is ``>`` and the link's target.
ABSENT: Final = "absent"
FOLDER: Final = "folder"
FILE: Final = "file"
SHARED: Final = "shared"  # a file with more than one name
_FILES: Final = frozenset([FILE, SHARED])

# What an entry may be for a call to reach below it as well.
Kinds = frozenset[str]
NOTHING: Final[Kinds] = frozenset()  # the call touches the entry alone
FOLDERS: Final[Kinds] = frozenset([FOLDER])  # it puts a file there, or into a folder
TREES: Final[Kinds] = frozenset([FOLDER, ABSENT])  # what is not there yet may become a folder
ANYTHING: Final[Kinds] = frozenset([FOLDER, ABSENT, FILE, SHARED])  # it puts a folder there
_PLAIN_KINDS: Final = frozenset([ABSENT, FOLDER, FILE])


class PathError(InputError):
    """A path cannot be read at all, so that it is refused under every ticket."""

    code = "path"


def check_text(text: str) -> None:
    """
    Refuse what no tool and no system reads alike.

    Raises:
        PathError: empty, over-long, not text for a disk, a shell's spelling, or a climb that
            only some readers see.

    >>> check_text("src/a.py")
    >>> check_text("~/.ssh/id_rsa")
    Traceback (most recent call last):
    broker.resolution.realpaths.PathError: a leading `~` is a shell's word for a home folder: ...
    """
    if not text:
        raise PathError("an empty path names nothing")
    if len(text) > MAX_PATH_CHARS:
        raise PathError(f"the path has {len(text)} characters, more than {MAX_PATH_CHARS}")
    if "\0" in text:
        raise PathError("a NUL ends the name for the system and not for the tool")
    if text[0] == "~":
        raise PathError("a leading `~` is a shell's word for a home folder: spell it out")
    if text[0] == "$":
        raise PathError("a leading `$` is a shell's variable: spell the path out")
    if "://" in text:
        scheme = text[: text.index("://")]
        if scheme.isascii() and scheme.replace("+", "").replace("-", "").isalnum():
            raise PathError("this is a URL and the argument is a path")
    if "\\" in text:
        _check_climb(text.replace("\\", "/"), text)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise PathError("half a surrogate pair cannot be a file's name") from None
        check_folded(text)


def check_folded(text: str) -> None:
    r"""
    Refuse a step up that stands in compatibility characters, which some readers fold.

    Raises:
        PathError: there is one.

    >>> check_folded("src/\u2025/x")
    Traceback (most recent call last):
    broker.resolution.realpaths.PathError: some tools read a step up into this path and some do not
    """
    folded = unicodedata.normalize("NFKC", text)
    if folded != text:
        _check_climb(folded.replace("\\", "/"), text.replace("\\", "/"))


def _check_climb(read: str, text: str) -> None:
    """Refuse a ``..`` that only another reading of the text shows."""
    plain = sum(part in (".", "..") for part in text.split("/"))
    if sum(part in (".", "..") for part in read.split("/")) > plain:
        raise PathError("some tools read a step up into this path and some do not")


def lexical(path: str) -> str:
    """
    Tidy an absolute path as text, the way a tool does that never looks at the disk.

    >>> lexical("/ws/src/../docs//./a.md")
    '/ws/docs/a.md'
    """
    if "//" not in path and "/." not in path:
        return path.rstrip("/") or "/"
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if parts:
                parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def climbs(text: str) -> bool:
    """
    Whether a path has a ``..`` component.

    >>> climbs("src/../a"), climbs("src/a..b")
    (True, False)
    """
    return ".." in text and ".." in text.split("/")


def inside(path: str, folder: str) -> str | None:
    """
    Return the place of ``path`` below ``folder``, or None when it lies outside.

    >>> inside("/ws/src/a.py", "/ws"), inside("/ws", "/ws"), inside("/ws-evil", "/ws")
    ('src/a.py/', '', None)
    """
    if path == folder:
        return ""
    prefix = folder if folder == "/" else folder + "/"
    if path.startswith(prefix):
        return path[len(prefix) :] + "/"
    return None


def in_git(place: str) -> bool:
    """
    Whether a place lies in a ``.git`` folder, whatever the letter case.

    >>> in_git(".git/config/"), in_git("a/.GIT/"), in_git(".github/x/")
    (True, True, False)
    """
    if place.isascii():
        folded = place.lower()
        return ".git" in folded and ".git" in folded.split("/")
    return ".git" in place.translate(_UNSEEN).casefold().split("/")


class PathWalk:
    """
    Reads paths for one call; what it has seen of folders is kept for that call only.

    Args:
        root: the workspace, absolute, without links; reading starts there without asking the
            disk about the folders above it. The caller makes sure that it still is the same.
        spelled: the workspace as the person spelled it, absolute; it may hold links.
    """

    __slots__ = ("_kinds", "_prefixes", "_root", "_spelled", "_steps", "kind", "parts")

    kind: str  # of what ``follow`` last came to
    parts: int  # of the path that ``follow`` last read

    def __init__(self, root: str, spelled: str) -> None:
        self._root = root
        self._spelled = spelled
        self._prefixes = tuple({f"{folder}/": None for folder in (root, spelled) if folder != "/"})
        self._kinds: dict[str, str] = {}
        self._steps = 0
        self.kind = FOLDER
        self.parts = 0

    def follow(self, path: str, *, last: bool = True) -> str:
        """
        Return where an absolute path leads, as an absolute path without links.

        Args:
            path: absolute; it need not exist.
            last: follow a link in the last component, as opening does; removing and renaming
                do not.

        Raises:
            PathError: a loop of links, a file where a folder is due, a process's own view, or
                the disk does not answer.
        """
        at, rest = self._start(path)
        self.parts = len(rest)
        self._spend(self.parts)
        if not last and (not rest or rest[0] in ("", ".", "..")):
            last = True
        hops = 0
        kind = FOLDER
        while rest:
            part = rest.pop()
            if part in _NO_STEP:
                continue
            if kind in _FILES:
                raise PathError(f"`{shown(at)}` is not a folder")
            if part == "..":
                at = at[: at.rindex("/")] if at else at
                kind = FOLDER  # or it is absent, and the next look says so
                continue
            step = f"{at}/{part}"
            if kind == ABSENT:
                at = _onward(step, rest)
                continue
            if at[:5] in VIEWS:
                _check_view(at, part)
            kind = self._kinds.get(step) or self._look(step)
            if kind[0] == ">" and (last or rest):
                hops += 1
                if hops > MAX_LINK_HOPS:
                    raise PathError("the links go round in a circle, or are too many to follow")
                target = kind[1:]
                kind = FOLDER
                if target[0] == "/":
                    at, more = self._start(target)
                else:
                    more = target.split("/")[::-1]
                # A few links of some thousand parts each would hold whoever follows them.
                self._spend(len(more))
                rest += more
                continue
            at = step
        self.kind = kind
        return at or "/"

    def passed(self, folder: str) -> bool:
        """Whether a folder that ``follow`` came through is there; if not, nothing is in it."""
        return folder == self._root or self._kinds.get(folder) == FOLDER

    def enter(self, step: str, parts: int, *, there: bool) -> str | None:
        """
        Return what a name is in a folder that ``follow`` came through: its last step, alone.

        Args:
            step: the folder, as ``follow`` returned it, and the name.
            parts: as many as ``follow`` would count.
            there: whether the folder is.

        Returns:
            None when it is a link or a file with a second name, which has to be read in full.

        Raises:
            PathError: as ``follow`` does.
        """
        if not there:
            kind = ABSENT
        elif self._steps + parts > MAX_PATH_STEPS:
            return None
        else:
            kind = self._kinds.get(step) or self._look(step)
            if kind not in _PLAIN_KINDS:
                return None
        self._steps += parts
        return kind

    def _spend(self, parts: int) -> None:
        self._steps += parts
        if self._steps > MAX_PATH_STEPS:
            raise PathError("the call's paths have too many parts to read them all")

    def _start(self, path: str) -> tuple[str, list[str]]:
        """Return where reading starts, and what is still to read, in reverse."""
        for prefix in self._prefixes:
            if path.startswith(prefix):
                return self._root, path[len(prefix) :].split("/")[::-1]
        if path in (self._root, self._spelled) and path != "/":
            return self._root, []
        return "", path.split("/")[::-1]

    def _look(self, path: str) -> str:
        """Ask the disk what an entry is; a link's answer is ``>`` and its target."""
        try:
            found = os.lstat(path)
            mode = found.st_mode
            if stat.S_ISDIR(mode):
                kind = FOLDER
            elif stat.S_ISLNK(mode):
                kind = ">" + (os.readlink(path) or ".")
            else:
                kind = SHARED if found.st_nlink > 1 and stat.S_ISREG(mode) else FILE
        except FileNotFoundError:
            kind = ABSENT
        except OSError as error:
            reason = (error.strerror or "the disk does not answer").lower()
            raise PathError(f"`{shown(path)}` cannot be read: {reason}") from None
        self._kinds[path] = kind
        return kind


def _onward(at: str, rest: list[str]) -> str:
    """
    Return what a path comes to below an entry that is not there, up to the next step up.

    Nothing is looked at, so it is taken in one go: part by part, each is a longer copy.
    """
    parts = [at]
    while rest and rest[-1] != "..":
        part = rest.pop()
        if part not in _NO_STEP:
            parts.append(part)
    return "/".join(parts)


def _check_view(at: str, part: str) -> None:
    """Refuse entries that lead wherever the process that asks has them lead."""
    if at == "/dev":
        if part in _DEVICES:
            raise PathError(f"`/dev/{part}` is an open handle of whoever reads it")
    elif at.startswith("/proc/") and part in _PROCESS and at.count("/") == 2:
        raise PathError(f"`{shown(at)}/{part}` is another thing for each process that reads it")


def shown(text: str, most: int = 120) -> str:
    """
    Return a text that can stand in a one-line message.

    >>> shown("a\\nb"), shown("x" * 200, 3)
    ('a\N{REPLACEMENT CHARACTER}b', 'xxx…')
    """
    cut = text[:most] + ("…" if len(text) > most else "")
    if cut.isascii() and cut.isprintable():
        return cut
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in cut)


def under_any(path: str, folders: Sequence[str], *, above: bool) -> bool:
    """
    Whether a path lies in one of the folders, or (``above``) holds one of them.

    >>> under_any("/h/keys/a", ("/h/keys",), above=False)
    True
    >>> under_any("/h", ("/h/keys",), above=False), under_any("/h", ("/h/keys",), above=True)
    (False, True)
    """
    for folder in folders:
        if path.startswith(folder) and inside(path, folder) is not None:
            return True
        if above and folder.startswith(path) and inside(folder, path) is not None:
            return True
    return False
