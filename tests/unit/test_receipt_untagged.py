"""A chain whose tags nobody can check still checks everything else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.errors import Break, InputError, UnverifiableError
from broker.receipt.chain import Chain
from broker.receipt.untagged import Untagged, stated_kid, stated_sid
from tests.receiptkit import KEY, Scene, outcome, tampered_tag


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Three fresh sessions."""
    return Scene.at(tmp_path)


def walked(chain: Chain, lines: list[bytes]) -> Chain:
    """Accept lines one by one."""
    for line in lines:
        chain.accept(line)
    return chain


def test_it_comes_to_the_same_end_as_a_chain_with_the_key(scene: Scene) -> None:
    """Of an honest receipt both tell the same number, link, root and reason."""
    with_key = walked(Chain("s1", KEY), scene.lines("s1"))
    without = walked(Untagged("s1", KEY.kid), scene.lines("s1"))
    for name in ("n", "size", "last", "root", "closing", "kind", "at", "text"):
        assert getattr(without, name) == getattr(with_key, name)


def test_any_tag_is_taken_but_its_form_is_not_free(scene: Scene) -> None:
    """A wrong tag passes, as it must without the key; a tag of another form does not."""
    lines = scene.lines("s2")
    walked(Untagged("s2", KEY.kid), [*lines[:-1], tampered_tag(lines[-1])])
    upper = lines[0][:-66] + lines[0][-66:-2].upper() + lines[0][-2:]
    with pytest.raises(Break) as caught:
        Untagged("s2", KEY.kid).accept(upper)
    assert caught.value.reason == "format"


def test_a_changed_line_is_found_by_the_next_one(scene: Scene) -> None:
    """What the tag would have told at the line, the link tells one line later."""
    lines = scene.lines("s2")
    lines[4] = lines[4].replace(b"main", b"mine")
    with pytest.raises(Break) as caught:
        walked(Untagged("s2", KEY.kid), lines)
    assert (caught.value.reason, caught.value.line) == ("prev", 5)


def test_another_key_or_session_is_a_break(scene: Scene) -> None:
    """Key name and session are those that were given, not those of the file."""
    for sid, kid in (("s3", KEY.kid), ("s2", "0" * 16)):
        assert outcome(lambda s=sid, k=kid: walked(Untagged(s, k), scene.lines("s2"))) in {
            "sid",
            "kid",
        }


def test_a_file_names_itself(scene: Scene) -> None:
    """The first line says which session and which key."""
    fd = os.open(scene.path("s1"), os.O_RDONLY)
    try:
        assert stated_kid(fd) == KEY.kid
    finally:
        os.close(fd)
    assert stated_sid(scene.path("s1")) == "s1"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "unverifiable.nothing"),
        (b"{}", "torn"),
        (b"\n", "json"),
        (b"[]\n", "schema"),
        (b"{}\n", "schema"),
        (b"\xff\n", "encoding"),
        (b'{"kid":1,"sid":"s1"}\n', "schema"),
        (b'{"kid":"0123456789abcdef","sid":1}\n', "schema"),
        (b'{"kid":"0123456789ABCDEF","sid":"s1"}\n', "schema"),
        (b'{"kid":"0123456789abcdef","sid":"../x"}\n', "sid"),
    ],
)
def test_a_file_that_does_not_name_itself(scene: Scene, content: bytes, reason: str) -> None:
    """A first line that is none is a break; no line at all is nothing to verify."""
    scene.path("s1").write_bytes(content)
    assert outcome(lambda: stated_sid(scene.path("s1"))) == reason


@pytest.mark.parametrize("content", [b"", b"{}"])
def test_an_emptied_file_is_named_by_what_lies_beside_it(scene: Scene, content: bytes) -> None:
    """Where no line is left, head and checkpoint name the session; whoever verifies sees if so."""
    scene.path("s1").write_bytes(content)
    note = scene.head("s1").with_suffix(".note")
    note.write_bytes(b"capability-broker/0123456789abcdef/receipt/s1\n12\n")
    assert stated_sid(scene.path("s1"), scene.head("s1")) == "s1"
    assert stated_sid(scene.path("s1"), None, note) == "s1"
    note.write_bytes(b"capability-broker/0123456789abcdef/ledger\n12\n")
    answer = outcome(lambda: stated_sid(scene.path("s1"), note))
    assert answer == ("torn" if content else "unverifiable.nothing")


def test_a_first_line_without_a_key_s_name_is_no_line(scene: Scene) -> None:
    """A key's name that is none is told as such, and never taken for the name of a key."""
    for kid in (b"", b"0" * 15, b"F" * 16, b"0" * 17):
        line = scene.lines("s1")[0].replace(KEY.kid.encode(), kid)
        scene.put("s1", [line])
        fd = os.open(scene.path("s1"), os.O_RDONLY)
        assert stated_kid(fd) == ""
        os.close(fd)
        assert outcome(lambda line=line: Untagged("s1", "").accept(line)) == "schema"


def test_a_file_that_is_not_safe_is_not_asked(scene: Scene, tmp_path: Path) -> None:
    """A link is not followed, not even to learn a name."""
    link = tmp_path / "link"
    link.symlink_to(scene.path("s1"))
    with pytest.raises(UnverifiableError):
        stated_sid(link)


def test_a_session_that_cannot_be_one_is_refused() -> None:
    """The name is checked as for every chain."""
    with pytest.raises(InputError):
        Untagged("../x", KEY.kid)
