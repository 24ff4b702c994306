"""A kept state is authenticated, bound to its session, and relied on only where it fits."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from broker.receipt.chain import Chain, State
from broker.receipt.evidence import Evidence, Opened, opened
from broker.receipt.inspection import inspecting
from broker.receipt.keys import Key
from broker.receipt.since import LABEL, Since, fits, load_since, save_since
from tests.receiptkit import AT, KEY, Scene, outcome

OTHER = Key.of(bytes(range(1, 33)))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Three fresh sessions."""
    return Scene.at(tmp_path)


def came_to(scene: Scene, sid: str, lines: int | None = None) -> Since:
    """Return where a verification of the first lines came to."""
    chain = Chain(sid, KEY)
    for line in scene.lines(sid)[:lines]:
        chain.accept(line)
    return Since(chain.state(), "mac", AT)


def test_what_is_kept_is_read_again(scene: Scene, tmp_path: Path) -> None:
    """Everything comes back as it was, from a file for the owner alone."""
    path = tmp_path / "kept"
    for since in (
        came_to(scene, "s1"),
        replace(came_to(scene, "s2"), promise="signed", covered=(7, "ab" * 32, 900)),
    ):
        save_since(path, "s1", KEY, since)
        assert load_since(path, "s1", KEY) == since
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path).count(".kept.new") == 0


def test_a_state_of_another_session_or_key_is_none(scene: Scene, tmp_path: Path) -> None:
    """The tag is bound to both, so a state cannot be carried over."""
    path = tmp_path / "kept"
    save_since(path, "s1", KEY, came_to(scene, "s1"))
    assert load_since(path, "s2", KEY) is None
    assert load_since(path, "s1", OTHER) is None


def test_no_bit_of_a_state_can_be_changed(scene: Scene, tmp_path: Path) -> None:
    """Every flipped bit and every cut makes it none, but for the newline at its end."""
    path = tmp_path / "kept"
    save_since(path, "s2", KEY, came_to(scene, "s2"))
    content = path.read_bytes()
    for place in range(len(content) - 1):
        changed = bytearray(content)
        changed[place] ^= 1 << (place % 8)
        path.write_bytes(changed)
        assert load_since(path, "s2", KEY) is None
        path.write_bytes(content[:place])
        assert load_since(path, "s2", KEY) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda fields: fields.update(promise="best"),
        lambda fields: fields.update(full_at="yesterday"),
        lambda fields: fields.update(covered=[1]),
        lambda fields: fields.update(covered=7),
        lambda fields: fields.update(state={"n": 1}),
        lambda fields: fields["state"].update(edge=[[1]]),
        lambda fields: fields.pop("state"),
        lambda fields: fields.clear(),
    ],
)
def test_an_authentic_state_of_another_form_is_none(
    change: Callable[[dict[str, object]], object], scene: Scene, tmp_path: Path
) -> None:
    """What a later version may have written is not guessed at."""
    path = tmp_path / "kept"
    save_since(path, "s2", KEY, came_to(scene, "s2"))
    fields = json.loads(path.read_bytes())
    del fields["tag"]
    change(fields)
    body = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    tag = KEY.mac(LABEL, "s2").tag(body.encode())
    comma = "," if fields else ""
    path.write_text(f'{body[:-1]}{comma}"tag":"{tag}"}}\n')
    assert load_since(path, "s2", KEY) is None


@pytest.mark.parametrize("trick", ["symlink", "hardlink", "mode", "missing", "not_regular"])
def test_an_unsafe_file_is_refused(trick: str, scene: Scene, tmp_path: Path) -> None:
    """A link, a second name, a file that others can write: it is not read, nor written."""
    path, aside = tmp_path / "kept", tmp_path / "aside"
    save_since(aside, "s2", KEY, came_to(scene, "s2"))
    if trick == "symlink":
        path.symlink_to(aside)
    elif trick == "hardlink":
        os.link(aside, path)
    elif trick == "mode":
        os.rename(aside, path)
        path.chmod(0o622)
    elif trick == "not_regular":
        path.mkdir()
    assert outcome(lambda: load_since(path, "s2", KEY)) == f"unverifiable.{trick}"


# ── where it fits ──


def relied_on(scene: Scene, sid: str, since: Since, *, head: bool = True) -> bool:
    """Whether a state fits what lies there now."""
    place = scene.head(sid) if head else None
    with opened(Evidence(scene.path(sid), sid, KEY, place)) as files:
        return fits(since, files)


def test_it_fits_what_it_was_taken_from(scene: Scene) -> None:
    """At the end, in the middle, and after more was written."""
    for lines in (1, 5, 11):
        since = came_to(scene, "s2", lines)
        assert relied_on(scene, "s2", since)
        assert relied_on(scene, "s2", since, head=False)
    with scene.receipts.resume("s2", at=AT) as receipt:
        receipt.append("note", {}, at=AT)
    assert relied_on(scene, "s2", came_to(scene, "s2", 5))


def test_it_does_not_fit_another_line_at_its_place(scene: Scene) -> None:
    """Changed, shifted or shorter: there is no way around a whole verification."""
    since = came_to(scene, "s2", 5)
    lines = scene.lines("s2")
    scene.put("s2", [*lines[:4], lines[4].replace(b"main", b"mine"), *lines[5:]])
    assert not relied_on(scene, "s2", since)
    scene.put("s2", [lines[0] + b" ", *lines[1:]])
    assert not relied_on(scene, "s2", since)
    scene.put("s2", lines[:4])
    assert not relied_on(scene, "s2", since)
    scene.path("s2").write_bytes(b"\n".join(lines[:5]))
    assert not relied_on(scene, "s2", since)


def test_it_does_not_fit_a_head_that_speaks_of_less(scene: Scene) -> None:
    """A head that went back, or names another line at that number, is for a whole verification."""
    before = scene.head("s2").read_bytes()
    with scene.receipts.resume("s2", at=AT) as receipt:
        receipt.append("note", {}, at=AT)
        receipt.append("note", {}, at=AT)
    since = came_to(scene, "s2")
    assert relied_on(scene, "s2", since)
    other = replace(since.state, last="0" * 64)
    assert not relied_on(scene, "s2", replace(since, state=other))
    scene.head("s2").write_bytes(before)
    assert not relied_on(scene, "s2", since)


def test_a_state_before_the_first_line_is_worth_nothing(scene: Scene) -> None:
    """Of no line there is nothing to rely on."""
    empty = Since(State(0, 0, "0" * 64, "", "", 0, "", "", ()), "mac", AT)
    assert not relied_on(scene, "s2", empty, head=False)


def test_only_the_end_of_the_file_is_read(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fits is found by reading one line, however long the receipt."""
    since = came_to(scene, "s2")
    sizes = []
    real = os.pread

    def pread(fd: int, count: int, place: int) -> bytes:
        sizes.append(place)
        return real(fd, count, place)

    monkeypatch.setattr(os, "pread", pread)
    fd = os.open(scene.path("s2"), os.O_RDONLY)
    try:
        assert fits(since, Opened(fd, since.state.size, None, None))
    finally:
        os.close(fd)
    assert len(sizes) == 1


def test_an_inspection_tells_where_it_came_to(scene: Scene) -> None:
    """What it tells is what a chain over all lines comes to, and the next one begins there."""
    evidence = Evidence(scene.path("s2"), "s2", KEY, scene.head("s2"))
    seed = came_to(scene, "s2", 1)
    with inspecting(evidence, since=seed) as first:
        first.run()
        assert first.trusted == seed
        kept = first.since(AT + 5)
    assert kept == came_to(scene, "s2")
    with inspecting(evidence, since=kept) as second:
        second.run()
        assert second.trusted == kept
        assert second.since(AT + 9) == kept
