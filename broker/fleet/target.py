"""
A place for receipts elsewhere: anything that fsspec reaches, by its address.

Decided here: what is asked of a store, that an object is put once, and that whatever goes wrong
there is one kind of error. Not decided here: what lies where (``broker.fleet.layout``).

Rules a maintainer keeps: nothing here removes or changes an object; what a store says is believed
of nothing but its own names and sizes; no more is read than was listed; keys are taken from the
store's own configuration, never from an address.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar
from urllib.parse import urlsplit

from broker.boundary import contained
from broker.errors import InputError, StoreError, UnverifiableError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

T = TypeVar("T")
CHUNK_BYTES: Final = 2**20
_HERE: Final = ("file:", "local:")
_EXTRA: Final = "install it with `pip install 'capability-broker[fleet]'`"


def check_address(url: str, workspace: Path | None = None) -> str:
    """
    Return an address that may be mirrored to.

    Args:
        url: as configured or typed.
        workspace: where an agent writes; a folder in it is no place for receipts.

    Raises:
        InputError: it is none, holds a password, or what it takes is not installed.

    >>> check_address("file:///srv/receipts/")
    'file:///srv/receipts'
    """
    if find_spec("fsspec") is None:
        raise InputError(f"`{url}` takes fsspec: {_EXTRA}")
    from fsspec.registry import known_implementations  # noqa: PLC0415 - in an extra

    try:
        parts = urlsplit(url)
    except ValueError:
        raise InputError(f"`{url}` is no address") from None
    known = known_implementations.get(parts.scheme)
    if known is None or "::" in url or not url.isprintable():
        raise InputError(f"`{url}` is no address of a store: write `s3://bucket/folder`, say")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise InputError("the address of a store has no user, no password and no `?` or `#` in it")
    if not (parts.netloc + parts.path).strip("/"):
        raise InputError(f"`{url}` names no folder")
    module = str(known["class"]).split(".", maxsplit=1)[0]
    if find_spec(module) is None:
        raise InputError(f"`{parts.scheme}://` takes `{module}`: {_EXTRA}")
    if workspace is not None and url.startswith(_HERE):
        place = os.path.realpath(parts.netloc + parts.path)
        if Path(place).is_relative_to(os.path.realpath(workspace)):
            raise InputError(f"`{url}` lies in the workspace, where an agent can change it")
    return url.rstrip("/")


class Target:
    """
    A store. Safe among the threads of one process.

    Args:
        url: its address, such as ``s3://bucket/folder``.

    Raises:
        InputError: it is none.
    """

    def __init__(self, url: str) -> None:
        self.url = check_address(url)
        self._fs: AbstractFileSystem | None = None
        self._root = ""

    @property
    def shared(self) -> bool:
        """Whether other processes see what is put there."""
        return not self.url.startswith("memory:")

    def folder(self, *parts: str) -> dict[str, int | None]:
        """
        Return what lies in a folder: the size of each object, and None for each folder in it.

        Raises:
            StoreError: the store cannot be asked.
        """

        def listed() -> dict[str, int | None]:
            fs, place = self._opened(), self._place(*parts)
            fs.invalidate_cache()
            try:
                found = fs.ls(place, detail=True)
            except FileNotFoundError:
                return {}
            names: dict[str, int | None] = {}
            for each in found:
                name = str(each["name"]).rstrip("/").rsplit("/", 1)[-1]
                names[name] = None if each["type"] == "directory" else int(each["size"] or 0)
            return names

        return self._asked(listed)

    def put(self, content: bytes, *parts: str) -> None:
        """
        Put an object, whole, where there is none.

        Raises:
            StoreError: the store does not take it, or another object has the name.
        """

        def put() -> None:
            fs, place = self._opened(), self._place(*parts)
            try:
                if self.url.startswith(_HERE):
                    _put_here(Path(place), content)
                else:
                    fs.pipe_file(place, content, mode="create")
            except FileExistsError:
                if fs.cat_file(place) != content:
                    raise StoreError(
                        f"`{place}` is there already, and is not what is to be put there: nothing "
                        "is written over it"
                    ) from None

        self._asked(put)

    def read(self, limit_bytes: int, *parts: str) -> bytes:
        """
        Return an object that has at most so many bytes.

        Raises:
            UnverifiableError: it is larger.
            StoreError: the store does not give it.
        """
        content = self._asked(
            lambda: self._opened().cat_file(self._place(*parts), start=0, end=limit_bytes + 1)
        )
        if len(content) > limit_bytes:
            raise UnverifiableError(f"`{'/'.join(parts)}` has more than {limit_bytes} bytes")
        return bytes(content)

    def chunks(self, size_bytes: int, *parts: str) -> Iterator[bytes]:
        """
        Yield an object's bytes, at most so many as were listed.

        Raises:
            StoreError: the store does not give it.
        """
        place = self._asked(partial(self._place, *parts))
        for start in range(0, size_bytes, CHUNK_BYTES):
            end = min(size_bytes, start + CHUNK_BYTES)
            yield bytes(self._asked(partial(self._opened().cat_file, place, start=start, end=end)))

    def _opened(self) -> AbstractFileSystem:
        if self._fs is None:
            from fsspec.core import url_to_fs  # noqa: PLC0415 - takes long to load

            self._fs, self._root = url_to_fs(self.url)
        return self._fs

    def _place(self, *parts: str) -> str:
        self._opened()
        return "/".join((self._root.rstrip("/"), *parts))

    def _asked(self, work: Callable[[], T]) -> T:
        def failed(error: Exception) -> NoReturn:
            if isinstance(error, StoreError):
                raise error
            said = " ".join(str(error).split())[:300] or type(error).__name__
            raise StoreError(f"`{self.url}`: {said}", code="store.elsewhere") from error

        return contained(work, failed)


def _put_here(place: Path, content: bytes) -> None:
    """Put a file whole, or not at all: a store does that by itself, a file system must be told."""
    place.parent.mkdir(parents=True, exist_ok=True)
    fd, name = tempfile.mkstemp(dir=place.parent, prefix=".put-")
    try:
        with os.fdopen(fd, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        try:
            os.link(name, place)
        except FileExistsError:
            raise
        except OSError:  # a file system without links: only one process of ours puts here
            if os.path.lexists(place):
                raise FileExistsError(place) from None
            os.rename(name, place)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)
