"""Behind the first break every further one is named, and nothing that is whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.errors import Break
from broker.limits import MAX_LINE_BYTES
from broker.receipt.evidence import Evidence
from broker.receipt.inspection import inspecting
from tests.receiptkit import KEY, Scene, rechained, tampered_tag

Lines = list[bytes]
Place = tuple[str, int]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Three fresh sessions."""
    return Scene.at(tmp_path)


def found(scene: Scene, sid: str, *, head: bool = True, key: bool = True) -> list[Break]:
    """Return every break, the first one first; empty when the receipt verifies."""
    evidence = Evidence(
        scene.path(sid), sid, KEY if key else None, scene.head(sid) if head else None
    )
    with inspecting(evidence) as one:
        try:
            one.run()
        except Break as first:
            return [first, *one.breaks(first)]
    return []


def places(breaks: list[Break]) -> list[Place]:
    """Return reason and line of each."""
    return [(each.reason, each.line) for each in breaks]


def spoiled(line: bytes) -> bytes:
    """Return a line with one bit of its instant flipped."""
    return line[:20] + bytes([line[20] ^ 1]) + line[21:]


ACTS: dict[str, tuple[Callable[[Lines], Lines], list[Place]]] = {
    "one bit": (lambda x: [*x[:7], spoiled(x[7]), *x[8:]], [("mac", 7)]),
    "two bits apart": (
        lambda x: [*x[:3], spoiled(x[3]), *x[4:7], spoiled(x[7]), *x[8:]],
        [("mac", 3), ("mac", 7)],
    ),
    "two neighbours": (
        lambda x: [*x[:3], spoiled(x[3]), spoiled(x[4]), *x[5:]],
        [("mac", 3), ("mac", 4)],
    ),
    "the first line": (lambda x: [spoiled(x[0]), *x[1:]], [("mac", 0)]),
    "the last line": (lambda x: [*x[:-1], spoiled(x[-1])], [("mac", 11)]),
    "one missing": (lambda x: [*x[:5], *x[6:]], [("seq", 5)]),
    "two missing, one spoiled": (
        lambda x: [*x[:2], *x[4:8], spoiled(x[8]), *x[9:]],
        [("seq", 2), ("mac", 8)],
    ),
    "slipped in": (lambda x: [*x[:6], b'{"kind":"note"}', *x[6:]], [("format", 6)]),
    "blank": (lambda x: [*x[:6], b"", *x[6:]], [("format", 6)]),
    "repeated": (lambda x: [*x[:6], x[5], *x[6:]], [("seq", 6)]),
    "swapped": (lambda x: [*x[:4], x[5], x[4], *x[6:]], [("seq", 4), ("seq", 6)]),
    "replaced, and one missing": (
        lambda x: [*x[:4], spoiled(x[4]), *x[6:]],
        [("mac", 4), ("seq", 5)],
    ),
    "after the seal": (
        lambda x: [*x, x[3], b"{}"],
        [("after_seal", 12), ("after_seal", 13)],
    ),
    "too long": (
        lambda x: [*x[:4], b"x" * (3 * MAX_LINE_BYTES), *x[5:8], spoiled(x[8]), *x[9:]],
        [("size", 4), ("mac", 8)],
    ),
    "cut": (lambda x: [*x[:3], spoiled(x[3]), *x[4:9]], [("mac", 3), ("truncated", 9)]),
    "all": (lambda x: [spoiled(line) for line in x], [("mac", n) for n in range(12)]),
}


@pytest.mark.parametrize("name", ACTS)
def test_every_break_is_named(name: str, scene: Scene) -> None:
    """Each damage is named once, at its line, and no whole line is blamed."""
    act, wanted = ACTS[name]
    scene.put("s1", act(scene.lines("s1")))
    assert places(found(scene, "s1")) == wanted


def test_offsets_are_where_the_lines_begin(scene: Scene) -> None:
    """Every break tells the byte at which its line begins, behind a line that is too long too."""
    lines = scene.lines("s1")
    lines[4] = b"x" * (2 * MAX_LINE_BYTES + 5)
    lines[8] = spoiled(lines[8])
    scene.put("s1", lines)
    starts = [sum(len(line) + 1 for line in lines[:n]) for n in (4, 8)]
    assert [each.offset for each in found(scene, "s1")] == starts


def test_a_fork_behind_damage_is_found(scene: Scene) -> None:
    """After a spoiled line the acknowledged line is still compared with the head."""
    forged = rechained(scene.lines("s2"), "s2", lambda n, fields: fields["data"].update(more="x"))
    forged[3] = spoiled(forged[3])
    scene.put("s2", forged)
    assert places(found(scene, "s2")) == [("mac", 3), ("fork", 10)]


def test_a_line_of_another_history_is_found(scene: Scene) -> None:
    """A signed line that does not link to the one before it is named where it stands."""
    lines = scene.lines("s2")
    other = rechained(lines, "s2", lambda n, fields: fields["data"].update(more="x"))
    scene.put("s2", [*lines[:6], *other[6:]])
    assert places(found(scene, "s2")) == [("prev", 6), ("fork", 10)]


def test_a_fragment(scene: Scene) -> None:
    """A cut-off end is a break where no head says if it counted, and after the seal."""
    for sid, head, wanted in (
        ("s2", False, [("mac", 2), ("torn", 11)]),
        ("s2", True, [("mac", 2)]),
        ("s1", True, [("mac", 2), ("after_seal", 12)]),
    ):
        lines = scene.lines(sid)
        whole = scene.content(sid)
        lines[2] = tampered_tag(lines[2])
        scene.path(sid).write_bytes(b"".join(line + b"\n" for line in lines) + b"x")
        assert places(found(scene, sid, head=head)) == wanted
        scene.path(sid).write_bytes(whole)


def test_a_fragment_that_is_too_long(scene: Scene) -> None:
    """What no crash can leave is a break with a head as well."""
    lines = scene.lines("s2")
    lines[2] = tampered_tag(lines[2])
    content = b"".join(line + b"\n" for line in lines) + b"x" * (MAX_LINE_BYTES + 1)
    scene.path("s2").write_bytes(content)
    assert places(found(scene, "s2")) == [("mac", 2), ("size", 11)]


def test_without_the_key_the_links_tell(scene: Scene) -> None:
    """With no key a changed line is named by the link of the next one, each time."""
    lines = scene.lines("s2")
    for n in (3, 7):
        lines[n] = lines[n].replace(b"main", b"mine")
    scene.put("s2", lines)
    assert places(found(scene, "s2", head=False, key=False)) == [("prev", 4), ("prev", 8)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(damage=st.lists(st.tuples(st.integers(0, 11), st.sampled_from("-~+")), max_size=6))
def test_the_first_break_is_the_verifiers_and_the_damage_is_what_is_named(
    scene: Scene, damage: list[tuple[int, str]]
) -> None:
    """Whatever lines are dropped, spoiled or doubled: one break at least, never more than acts."""
    original = scene.content("s1")
    acts = dict(damage)
    lines: Lines = []
    for n, line in enumerate(scene.lines("s1")):
        match acts.get(n):
            case "-":
                pass
            case "~":
                lines.append(spoiled(line))
            case "+":
                lines += [line, line]
            case _:
                lines.append(line)
    scene.put("s1", lines)
    try:
        breaks = found(scene, "s1")
    finally:
        scene.path("s1").write_bytes(original)
    assert bool(breaks) == bool(acts)
    assert len(breaks) <= len(acts)
    assert all(each.reason != "prev" for each in breaks)


def test_evolving_tags_end_the_survey(scene: Scene) -> None:
    """With tags that move on from line to line, only the first break is named."""

    class Moving:
        kid = KEY.kid

        def __init__(self) -> None:
            self.mac = KEY.mac("receipt/1 line", "s1")

        def tag(self, body: bytes) -> str:
            return self.mac.tag(body)

        def step(self) -> None:
            """Move on: here, to the same."""

    lines = scene.lines("s1")
    scene.put("s1", [spoiled(lines[0]), spoiled(lines[1]), *lines[2:]])
    with inspecting(Evidence(scene.path("s1"), "s1", Moving())) as one:
        with pytest.raises(Break) as caught:
            one.run()
        assert list(one.breaks(caught.value)) == []
