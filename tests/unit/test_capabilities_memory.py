"""Files in memory behave as the machine's own, and fail where a test says so."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.capabilities.fs import Folder, SystemFiles
from broker.capabilities.memory import MemoryFiles

PLACES = st.sampled_from(["a", "b", "a/x", "a/y", "b/x/z", ".", "../a"])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "create", "replace", "append", "make", "remove", "link"]),
        PLACES,
        st.binary(max_size=3),
    ),
    max_size=12,
)


def outcome(act: Callable[[], object]) -> object:
    """Return what an operation returns, or that it failed; the numbers differ between systems."""
    try:
        return act()
    except OSError:
        return "failed"


def do(folder: Folder, operation: str, place: str, content: bytes) -> object:
    """Do one step, and return how it went."""
    arguments = [] if operation in ("make", "remove") else [content]
    return outcome(lambda: getattr(folder, operation)(place, *arguments))


@given(STEPS)
def test_memory_agrees_with_the_machine(steps: list[tuple[str, str, bytes]]) -> None:
    """After any steps, each has succeeded on both or on neither, and both hold the same files."""
    root = os.path.realpath(tempfile.mkdtemp(prefix="harness-fs-"))
    try:
        files = MemoryFiles()
        real, fake = SystemFiles().below(root), files.below(root)
        fake.make()
        for operation, place, content in steps:
            if operation == "link":
                if place not in (".", "../a") and real.status(place) is None:
                    if outcome(lambda place=place: os.symlink("a", f"{root}/{place}")) is None:
                        files.link(f"{root}/{place}", "a")
                continue
            assert do(real, operation, place, content) == do(fake, operation, place, content)
        for place in ("a", "b", "a/x", "a/y", "b/x", "b/x/z", "."):
            for read in (
                lambda folder, place=place: folder.status(place).kind,
                lambda folder, place=place: folder.names(place),
                lambda folder, place=place: folder.read(place, limit_bytes=5),
            ):
                if real.status(place) is None:
                    assert fake.status(place) is None
                else:
                    assert outcome(lambda r=read: r(real)) == outcome(lambda r=read: r(fake))
            spelled = f"{root}/{place}/.."
            assert SystemFiles().real(spelled) == files.real(spelled)
    finally:
        shutil.rmtree(root)


@pytest.mark.parametrize("operation", ["create", "replace", "append", "write", "make", "remove"])
def test_the_nth_change_fails(operation: str) -> None:
    """The change that a test names fails with its number, and the one after it does not."""
    files = MemoryFiles({"/ws/a": b"one"})
    files.fail_write(2, errno.ENOSPC)
    folder = files.below("/ws")
    folder.create("first", b"")
    place = "a" if operation in ("replace", "append", "write", "remove") else "new"
    arguments = [] if operation in ("make", "remove") else [b"two!"]
    with pytest.raises(OSError, match="No space") as caught:
        getattr(folder, operation)(place, *arguments)
    assert caught.value.errno == errno.ENOSPC
    left = b"tw" if operation == "write" else b"one"
    assert folder.read("a", limit_bytes=9) == left
    assert folder.status("new") is None
    getattr(folder, operation)(place, *arguments)


def test_a_loop_of_links_ends() -> None:
    """A link that leads to itself is where it is."""
    files = MemoryFiles()
    files.link("/ws/a", "b")
    files.link("/ws/b", "a")
    assert files.real("/ws/a") in ("/ws/a", "/ws/b")
