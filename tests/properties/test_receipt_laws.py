"""
The laws of a receipt.

1. What is recorded is spelled as RFC 8785 spells it, and reads back as it was.
2. The quick check of spelling never accepts what the strict one refuses.
3. A receipt that differs from what was signed, in any way, does not verify.
4. Whatever happens in whatever order, what was acknowledged is there, and all verifies.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from broker.errors import Break, StoreError
from broker.receipt.chain import Chain
from broker.receipt.entry import encode_data, format_at, strict_object
from broker.receipt.shapes import Shapes
from broker.receipt.verify import read_entries
from broker.receipt.writer import Receipt
from tests.receiptkit import AT, KEY, Scene, fill, new_receipts

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
keys = st.text(st.characters(max_codepoint=0x7F), max_size=6)
scalars = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)
records = st.dictionaries(keys, values, max_size=8)


@given(records)
def test_law_1_spelled_as_rfc_8785(data: dict[str, Any]) -> None:
    """The canonical text is that of an independent implementation of RFC 8785."""
    assert encode_data(data).encode() == rfc8785.dumps(data)


@given(records)
def test_law_1_read_back(data: dict[str, Any]) -> None:
    """Reading gives back what was recorded, and spelling that again gives the same text."""
    text = encode_data(data)
    assert strict_object(text) == data
    assert encode_data(strict_object(text)) == text


@given(records, st.sampled_from(["note", "decision", "result"]))
def test_law_1_whole_lines(data: dict[str, Any], kind: str) -> None:
    """A whole line is canonical too, tag and all, and a verifier reads the same data from it."""
    chain = Chain("s1", KEY)
    line = chain.compose("open", encode_data({"format": "receipt/1"}), format_at(AT))
    chain.accept(line)
    line = chain.compose(kind, encode_data(data), format_at(AT))
    assert rfc8785.dumps(json.loads(line)) == line
    chain.accept(line)
    assert (chain.kind, json.loads(chain.text)) == (kind, data)


pieces = st.sampled_from(['"', "\\", ":", ",", "{", "}", "[", "]", " ", "1", "a", '":"', '","', "é",
                          "\t", "null", '"a":', "-0", ".5"])  # fmt: skip


def learned(known: list[dict[str, Any]]) -> Shapes:
    """Return the shapes of some data."""
    shapes = Shapes()
    for each in known:
        text = encode_data(each)
        shapes.learn(text, text.encode(), 0, len(text.encode()))
    return shapes


def found(shapes: Shapes, text: str) -> bool:
    """Whether a text has one of the shapes."""
    content = text.encode()
    return shapes.find(content, 0, len(content)) is not None


@given(st.lists(records, min_size=1, max_size=3), st.data())
def test_law_2_the_quick_check_is_sound(known: list[dict[str, Any]], data: st.DataObject) -> None:
    """A text that the memory of shapes knows, however it came about, is canonical."""
    shapes = learned(known)
    text = encode_data(known[0])
    for _ in range(data.draw(st.integers(0, 3))):
        start = data.draw(st.integers(0, len(text)))
        stop = data.draw(st.integers(start, min(len(text), start + 4)))
        text = text[:start] + data.draw(pieces) + text[stop:]
    if found(shapes, text):
        assert encode_data(strict_object(text)) == text


@given(st.text('{}[]":,a1\\ \n-u0etrf', max_size=24))
def test_law_2_from_nothing(text: str) -> None:
    """A memory full of plain shapes knows no text that the strict reader refuses."""
    shapes = learned(
        [{"a": "a"}, {"a": 1}, {"a": {"a": "1"}}, {"a": ["a", "1"]}, {"": "", "a": ""}, {"a": True}]
    )
    for whole in (text, f'{{"a":{text}}}', f'{{"a":"{text}"}}'):
        if found(shapes, whole):
            assert encode_data(strict_object(whole)) == whole


@given(records)
def test_law_2_the_quick_check_knows_its_own(data: dict[str, Any]) -> None:
    """Data whose shape was learned is known by it, but for long integers and odd keys."""
    long = any(len(part) > 15 for part in re.findall(r"\d+", encode_data(data)))
    assert found(learned([data]), encode_data(data)) or long or not plain_keys(data)


def plain_keys(value: object) -> bool:
    """Whether no key at any depth needs an escape."""
    if isinstance(value, list):
        return all(map(plain_keys, value))
    if isinstance(value, dict):
        return all(encode_data({key: 1}) == f'{{"{key}":1}}' for key in value) and all(
            map(plain_keys, value.values())
        )
    return True


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """A small sealed receipt, `s1`."""
    scene = Scene(new_receipts(tmp_path_factory.mktemp("laws")))
    fill(scene.receipts, "s1", 4).seal("complete", at=AT)
    return scene


def verifies(scene: Scene, content: bytes) -> bool:
    """Whether other content in the receipt's place verifies."""
    before = scene.content("s1")
    scene.path("s1").write_bytes(content)
    try:
        return scene.outcome("s1") in {"SEALED", "OPEN", "TORN", "INTERRUPTED"}
    finally:
        scene.path("s1").write_bytes(before)


def test_law_3_every_swap_drop_and_repeat(sealed: Scene) -> None:
    """No two lines can change places, and no line can be left out or repeated anywhere."""
    lines = [line + b"\n" for line in sealed.lines("s1")]
    assert verifies(sealed, b"".join(lines))
    for i, j in combinations(range(len(lines)), 2):
        swapped = [*lines]
        swapped[i], swapped[j] = lines[j], lines[i]
        assert not verifies(sealed, b"".join(swapped))
    for i in range(len(lines)):
        assert not verifies(sealed, b"".join(lines[:i] + lines[i + 1 :]))
        for j in range(len(lines) + 1):
            assert not verifies(sealed, b"".join([*lines[:j], lines[i], *lines[j:]]))


@given(st.data())
def test_law_3_no_edit_survives(sealed: Scene, data: st.DataObject) -> None:
    """Cutting out any part and putting in any other bytes breaks a sealed receipt."""
    content = sealed.content("s1")
    start = data.draw(st.integers(0, len(content)))
    stop = data.draw(st.integers(start, min(len(content), start + 80)))
    inserted = data.draw(
        st.binary(max_size=20) | st.sampled_from([b"\n", b"\r\n", b" ", b"\x00" * 9, content[:99]])
    )
    changed = content[:start] + inserted + content[stop:]
    assert verifies(sealed, changed) == (changed == content)


class Sessions(RuleBasedStateMachine):
    """Writers that come, go and crash, against a plain list of what was acknowledged."""

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp())
        self.scene = Scene(new_receipts(self.place))
        self.writers: list[Receipt] = [fill(self.scene.receipts, "s1", 0)]
        self.written: list[str] = []  # every line of ours, in order
        self.safe = 0  # how many of them were acknowledged
        self.sealed = False
        self.fragments = 0

    def teardown(self) -> None:
        for writer in self.writers:
            writer.close()
        shutil.rmtree(self.place)

    @precondition(lambda self: self.writers)
    @rule(data=st.data(), durable=st.booleans(), text=texts)
    def append(self, data: st.DataObject, durable: bool, text: str) -> None:
        """Any writer appends a line."""
        writer = data.draw(st.sampled_from(self.writers))
        try:
            writer.append("note", {"text": text}, at=AT, durable=durable)
        except StoreError as error:
            assert self.sealed
            assert error.code == "store.sealed"
            return
        assert not self.sealed
        self.written.append(text)
        if durable:
            self.safe = len(self.written)

    @precondition(lambda self: len(self.writers) < 3)
    @rule()
    def resume(self) -> None:
        """Another writer joins, which adopts every line that is there."""
        try:
            self.writers.append(self.scene.receipts.resume("s1", at=AT))
        except StoreError:
            assert self.sealed
            return
        assert not self.sealed
        self.safe = len(self.written)

    @precondition(lambda self: self.writers)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        """A writer leaves."""
        self.writers.pop(data.draw(st.integers(0, len(self.writers) - 1))).close()

    @precondition(lambda self: self.writers)
    @rule(data=st.data())
    def flush(self, data: st.DataObject) -> None:
        """A writer makes durable what waits."""
        data.draw(st.sampled_from(self.writers)).flush()

    @precondition(lambda self: not self.sealed)
    @rule(cut=st.integers(1, 60))
    def tear(self, cut: int) -> None:
        """A writer elsewhere is killed in the middle of its line."""
        with open(self.scene.path("s1"), "ab") as file:
            file.write(b'{"at":"2026-11-30T08:00:00.000Z","data":{"text":"lost"}'[:cut])
        self.fragments += 1

    @precondition(lambda self: self.writers and not self.sealed)
    @rule(data=st.data(), reason=st.sampled_from(["complete", "interrupted"]))
    def seal(self, data: st.DataObject, reason: str) -> None:
        """A writer seals."""
        data.draw(st.sampled_from(self.writers)).seal(reason, at=AT)
        self.sealed = True
        self.safe = len(self.written)

    @invariant()
    def all_verifies(self) -> None:
        """Every line is there in order, every acknowledged one is known to the head."""
        verdict = self.scene.verify("s1")
        entries = list(read_entries(self.scene.path("s1"), KEY, self.scene.head("s1")))
        assert [entry.data["text"] for entry in entries if entry.kind == "note"] == self.written
        recovered = sum(entry.kind == "recover" for entry in entries)
        assert recovered <= self.fragments
        assert verdict.lines - verdict.beyond >= self.safe
        assert (verdict.state in {"SEALED", "INTERRUPTED"}) == self.sealed


Sessions.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestSessions = Sessions.TestCase


@given(st.integers(0, 300))
def test_law_4_a_break_never_moves_the_chain(cut: int) -> None:
    """Refusing a line leaves the chain where it was, so the true line still fits."""
    chain = Chain("s1", KEY)
    line = chain.compose("open", encode_data({"format": "receipt/1"}), format_at(AT))
    bad = line[: cut % len(line)] + b"x" + line[cut % len(line) :]
    with pytest.raises(Break):
        chain.accept(bad)
    chain.accept(line)
    assert chain.n == 1
