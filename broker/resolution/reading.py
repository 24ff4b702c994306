"""
Reads the arguments of one call, role by role.

Decided here: how each role of a catalog is read, and what is done with an argument that no
catalog knows: it is judged as the path or URL that it looks like, with write access, and a
guess that cannot be read becomes a subject that fits no pattern. Not decided here: which
entry describes the tool (``broker.resolve``) and where a path leads (``broker.resolution.places``).

Rules a maintainer keeps: every role of ``broker.catalogs`` is read here; a known argument of a
wrong type is a fault; a known argument is never read more loosely because another is odd; a text
that one argument holds again is judged where it first stands, since it leads to the same place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from broker.calls import Access, PathSubject, UrlSubject
from broker.catalogs.entry import Argument, ToolEntry
from broker.limits import MAX_PATCH_CHARS, MAX_PATH_CHARS, MAX_SUBJECT_CHARS, MAX_SUBJECTS
from broker.resolution.addresses import file_path, named_hosts, read_address
from broker.resolution.arguments import (
    TOO_LONG,
    TOO_MANY,
    Taken,
    Unreadable,
    clean,
    is_flat,
    leaves,
    lifts_limits,
    look,
    names,
)
from broker.resolution.globbing import fixed_start, on_windows, recurses
from broker.resolution.patches import PatchError, patched
from broker.resolution.places import PathReader, Paths
from broker.resolution.realpaths import (
    ANYTHING,
    FOLDERS,
    NOTHING,
    TREES,
    Kinds,
    PathError,
    check_text,
)
from broker.resolution.roles import ACCESS, BESIDE, PLAIN, STAYS, TOPS, WHOLE
from broker.resolution.winpaths import is_windows

_DRIVE_URL: Final = re.compile(r"/[A-Za-z]:[/\\]")
_LIFTS: Final = "this switch lifts the limits of the call"


class Reading:
    """
    What one call's arguments turn out to touch; filled by ``read``.

    ``nested`` holds the values of arguments that are calls themselves, for the resolver.
    """

    def __init__(self, paths: Paths, base: str, taken: Taken | None = None) -> None:
        self._paths = paths
        self._taken = taken or Taken()
        self._reader: PathReader | None = None
        self.base = base
        self.paths: list[PathSubject] = []
        self.urls: list[UrlSubject] = []
        self.missing: list[str] = []
        self.nested: list[tuple[str, object]] = []
        self.opaque = False
        self.command: str | None = None
        self._guessed: set[tuple[str, str, str]] = set()

    def read(self, entry: ToolEntry | None, arguments: dict[str, object]) -> None:
        """
        Read all arguments of a call.

        Raises:
            Unreadable: one of them cannot be read.
        """
        if entry is None or not entry.vouched:
            self.opaque = True
        if entry is not None:
            self.opaque = self.opaque or entry.effect == "opaque"
            self._object(entry.arguments, arguments, "", judge=entry.others == "judge")
        else:
            self._object({}, arguments, "", judge=True)

    # ── one object of arguments ──

    def _object(
        self, known: Mapping[str, Argument], values: dict[str, object], label: str, *, judge: bool
    ) -> None:
        before = self.base
        folder = self._starts(known, values, label)
        last: list[tuple[str, str, object]] = []  # headers need the URLs to be read, and so on
        files: list[bool] = []  # whether what is moved or copied is known to be no folder
        for key, spec in known.items():
            value = values.get(key)
            here = f"{label}{key}"
            if key == folder:
                continue
            if value is None or spec.role not in BESIDE:
                start = len(self.paths)
                self._argument(here, spec, value)
                if spec.role in WHOLE:
                    plain = isinstance(value, str) or is_flat(value)
                    files.append(plain and not any(p.below for p in self.paths[start:]))
            elif spec.role == "glob-in":
                self._search(here, value, known.get(folder or ""), values.get(folder or ""))
            elif spec.role == "link-target":
                self._link(here, value, known, values)
            else:
                last.append((here, spec.role, value))
        for here, role, value in last:
            if role == "headers":
                self._headers(here, value)
            else:
                below = FOLDERS if files and all(files) else ANYTHING
                self._paths_of(self._each(here, value), ACCESS[role], below=below)
        if judge and not values.keys() <= known.keys():
            for key, value in values.items():
                if key not in known:
                    self.guess(f"{label}{clean(key)}", key, value)
        self.base = before

    def _starts(
        self, known: Mapping[str, Argument], values: dict[str, object], label: str
    ) -> str | None:
        """Read where relative paths start; return the argument that a search starts from."""
        folder = None
        for key, spec in known.items():
            if spec.role == "cwd":
                self._cwd(f"{label}{key}", spec, values.get(key))
            elif spec.role == "glob-in" and values.get(key) is not None:
                folder = next((k for k, s in known.items() if s.role in TOPS), None)
        return folder

    def _argument(self, label: str, spec: Argument, value: object) -> None:
        if value is None:
            value = spec.default
            if value is None:
                if spec.required:
                    self.missing.append(label)
                return
        if spec.fields is not None:
            self._fields(label, spec.fields, value)
        elif spec.role in ACCESS:
            below = TREES if spec.role in WHOLE else NOTHING
            last = spec.role not in STAYS
            self._paths_of(self._each(label, value), ACCESS[spec.role], last=last, below=below)
        elif spec.role in _TEXTS:
            for here, text in self._texts(label, value):
                _TEXTS[spec.role](self, here, text)
        elif spec.role not in PLAIN:
            self._value(label, spec.role, value)

    def _value(self, label: str, role: str, value: object) -> None:
        if role == "opaque":
            self.opaque = True
            if self.command is None and isinstance(value, str):
                self.command = value
        elif role == "nested-calls":
            self.nested.append((label, value))
        elif role != "escape":
            raise Unreadable("arguments", label, f"nothing reads the role `{role}`")
        elif value is not False:
            raise Unreadable("arguments", label, _LIFTS)

    def _fields(self, label: str, fields: Mapping[str, Argument], value: object) -> None:
        items = value if isinstance(value, list) else [value]
        for n, item in enumerate(items):
            here = f"{label}[{n}]" if isinstance(value, list) else label
            if not isinstance(item, dict):
                raise Unreadable("arguments", here, "an object is due here")
            self._object(fields, item, f"{here}.", judge=True)

    def _each(self, label: str, value: object) -> Iterable[tuple[str, str]]:
        return ((label, value),) if isinstance(value, str) else self._texts(label, value)

    def _texts(self, label: str, value: object) -> Iterator[tuple[str, str]]:
        """Yield the different texts of an argument, each with the label of its first place."""
        if is_flat(value):  # as very long lists are
            first: dict[str, int] = {}
            for n, text in enumerate(value):
                first.setdefault(text, n)
            return ((f"{label}[{n}]", text) for text, n in first.items())
        return self._deep_texts(label, value)

    def _deep_texts(self, label: str, value: object) -> Iterator[tuple[str, str]]:
        for key in names(value):
            if look("", key) != "text":
                self._guess_text(label, "", key)  # a table from paths to what they shall hold
        seen: set[str] = set()
        for here, _, item in leaves(value, label):
            if not isinstance(item, str):
                raise Unreadable("arguments", here, "a text is due here")
            if item not in seen:
                seen.add(item)
                yield here, item

    # ── paths ──

    def _path(
        self,
        label: str,
        text: str,
        access: Access,
        *,
        last: bool = True,
        below: Kinds = NOTHING,
        base: str | None = None,
    ) -> None:
        self._paths_of(((label, text),), access, last=last, below=below, base=base)

    def _paths_of(
        self,
        found: Iterable[tuple[str, str]],
        access: Access,
        *,
        last: bool = True,
        below: Kinds = NOTHING,
        base: str | None = None,
    ) -> None:
        """Judge the paths of one argument, each with its own label; there may be very many."""
        start, label = base or self.base, ""
        paths, taken, room = self.paths, self._taken, MAX_SUBJECTS - len(self.urls)
        try:
            for label, text in found:
                if self._reader is None:
                    self._reader = self._paths.begin()
                subject = self._reader.subject(label, text, start, access, last=last, below=below)
                paths.append(subject)
                taken.chars += len(label) + len(text) + len(subject.resolved)
                if len(paths) > room or taken.chars > MAX_SUBJECT_CHARS:
                    self._count()
        except PathError as error:
            raise Unreadable("path", label, error.message) from None

    def _count(self) -> None:
        if len(self.paths) + len(self.urls) > MAX_SUBJECTS:
            raise Unreadable("arguments", "", TOO_MANY)
        if self._taken.chars > MAX_SUBJECT_CHARS:
            raise Unreadable("arguments", "", TOO_LONG)

    def _add(self, subject: UrlSubject) -> None:
        self.urls.append(subject)
        self._taken.chars += len(subject.argument) + len(subject.spelled)
        self._count()

    def _cwd(self, label: str, spec: Argument, value: object) -> None:
        value = spec.default if value is None else value
        if value is None:
            return
        if not isinstance(value, str):
            raise Unreadable("arguments", label, "a text is due here")
        self._path(label, value, "read")
        try:
            self.base = self._paths.base(value, self.base)
        except PathError as error:
            raise Unreadable("path", label, error.message) from None

    def _search(self, label: str, value: object, folder: Argument | None, top: object) -> None:
        """
        Judge the fixed beginning of each pattern, below the folder that is searched.

        All that lies below it is read too where the pattern recurses, or where the tool always
        searches a tree, whatever the pattern.
        """
        if top is None and folder is not None:
            top = folder.default
        if not (top is None or isinstance(top, str)):
            raise Unreadable("arguments", label, "the folder that is searched is no text")
        for here, text in self._texts(label, value):
            try:
                check_text(text)
                if self._paths.root[0] != "/":
                    text = on_windows(text)  # noqa: PLW2901 - read on as Windows would
                start = fixed_start(text)
                if top is not None and not start.startswith("/") and not is_windows(start):
                    check_text(top)
                    start = f"{top}/{start}" if start else top
            except PathError as error:
                raise Unreadable("path", here, error.message) from None
            whole = recurses(text) or (folder is not None and folder.role == "path-tree")
            self._path(here, start or ".", "read", below=TREES if whole else NOTHING)

    def _link(
        self, label: str, value: object, known: Mapping[str, Argument], values: dict[str, object]
    ) -> None:
        """Judge where a new link leads: relative to the folder that the link stands in."""
        place = next((k for k, s in known.items() if s.role == "path-nofollow"), None)
        link = values.get(place) if place is not None else None
        base = self.base
        if isinstance(link, str):
            cut = max(link.rfind("/"), link.rfind("\\") if self._paths.root[0] != "/" else -1)
            if cut >= 0:
                try:
                    base = self._paths.base(link[: cut + 1], self.base)
                except PathError as error:
                    raise Unreadable("path", label, error.message) from None
        for here, text in self._texts(label, value):
            self._path(here, text, "read", base=base)

    def _patch(self, label: str, text: str) -> None:
        if len(text) > MAX_PATCH_CHARS:
            raise Unreadable("arguments", label, f"a patch of {len(text)} characters is too long")
        try:
            found = patched(text)
        except PatchError as error:
            raise Unreadable("arguments", label, str(error)) from None
        for name in found:
            self._path(label, name, "write")

    # ── addresses ──

    def _url(self, label: str, text: str) -> None:
        subject = read_address(label, text)
        if subject.scheme == "file":
            self._file_url(label, text)
        self._add(subject)

    def _file_url(self, label: str, text: str, access: Access = "read") -> None:
        if text[:5].lower() != "file:":
            self._add(read_address(label, text))
            return
        path = file_path(text)
        if path is None:
            raise Unreadable("url", label, "a file's address is written `file:///path`")
        if self._paths.root[0] != "/" and _DRIVE_URL.match(path):
            path = path[1:]
        self._path(label, path, access)

    def _headers(self, label: str, value: object) -> None:
        """Judge a Host header that names another host than the call's URLs do."""
        scheme = self.urls[0].scheme if self.urls and self.urls[0].keys else "https"
        known = {url.keys for url in self.urls}
        for subject in named_hosts(label, value, scheme):
            if subject.keys not in known:
                known.add(subject.keys)
                self._add(subject)

    # ── what no catalog knows ──

    def guess(self, label: str, name: str, value: object) -> None:
        """
        Judge an argument that no catalog knows by what it looks like.

        Raises:
            Unreadable: it is a switch that lifts limits.
        """
        if lifts_limits(name, value):
            raise Unreadable("arguments", label, _LIFTS)
        for key in names(value):
            if look("", key) != "text":
                self._guess_text(label, "", key)
        for here, called, item in leaves(value, label, name):
            if lifts_limits(called, item):
                raise Unreadable("arguments", here, _LIFTS)
            if isinstance(item, str):
                self._guess_text(here, called, item)

    def _guess_text(self, label: str, name: str, text: str) -> None:
        kind = look(name, text)
        guessed = (kind, self.base, text)
        if kind == "text" or guessed in self._guessed:
            return
        self._guessed.add(guessed)
        try:
            if text[:5].lower() == "file:":
                self._file_url(label, text, "write")
            elif kind == "path":
                self._path(label, text, "write")
            else:
                self._url(label, text)
        except Unreadable as found:
            spelled = clean(text, MAX_PATH_CHARS)
            if kind == "path" or text[:5].lower() == "file:":
                why = found.fault.reason
                self.paths.append(PathSubject(label, spelled, "write", (), why=why))
                self._count()  # also where that is what could not be read
            else:
                self._add(UrlSubject(label, spelled, "", "", 0, ()))


_TEXTS: Final = {
    "url": Reading._url,
    "proxy-url": Reading._url,
    "file-url": Reading._file_url,
    "patch": Reading._patch,
}
