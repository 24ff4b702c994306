"""Tests of `broker.receipt.commitment`: values that can be shown or erased, and nothing else."""

from __future__ import annotations

import json
import os
from base64 import urlsafe_b64encode
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import Break
from broker.receipt.commitment import (
    by_digest,
    commit,
    committed,
    digest,
    plain_digest,
    read_disclosure,
    shown,
)
from broker.receipt.entry import encode_data

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
DATA = st.dictionaries(st.sampled_from(["tool", "args", "path", "line"]), VALUES)


def salts() -> Any:
    """Return randomness that never repeats."""
    numbers = count()
    return lambda n: next(numbers).to_bytes(n, "big")


def of(*parts: object) -> str:
    """Spell a disclosure of any parts."""
    text = json.dumps(parts, separators=(",", ":"), ensure_ascii=False)
    return urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


@given(data=DATA, names=st.sets(st.sampled_from(["args", "path", "line", "absent"])))
def test_what_was_committed_to_can_be_shown_whole(data: dict[str, Any], names: set[str]) -> None:
    """Clear fields and shown ones together are the data; without disclosures they are counted."""
    clear, kept = commit(data, sorted(names), salts())
    values, missing = shown(clear, by_digest(kept))
    clear_fields = {name: value for name, value in clear.items() if name != "_sd"}
    assert clear_fields | values == data
    assert missing == 0
    assert not names & set(clear_fields)
    assert shown(clear, {}) == ({}, len(kept))
    encode_data(clear)  # what is signed lies within the data model


@given(value=VALUES)
def test_equal_values_have_different_digests(value: object) -> None:
    """Two commitments of one value differ, so that none can be guessed by trying values."""
    randomness = salts()
    first, _ = commit({"v": value}, ["v"], randomness)
    second, _ = commit({"v": value}, ["v"], randomness)
    assert first != second


def test_salts_are_as_long_as_they_must_be() -> None:
    """Each salt takes 16 fresh bytes of the randomness that is given."""
    asked: list[int] = []

    def randomness(n: int) -> bytes:
        asked.append(n)
        return os.urandom(n)

    commit({"a": 1, "b": 2, "c": 3}, ["a", "b"], randomness)
    assert asked == [16, 16]


def test_another_value_is_not_shown() -> None:
    """A disclosure under the right digest with another value is a break."""
    clear, _ = commit({"path": "a"}, ["path"], salts())
    forged = of("AAAAAAAAAAAAAAAAAAAAAA", "path", "b")
    with pytest.raises(Break) as broken:
        shown(clear, {clear["_sd"][0]: forged})  # type: ignore[index]  # a list, just made
    assert broken.value.reason == "disclosure"


def test_a_disclosure_does_not_move_to_another_field_or_line() -> None:
    """The name is inside, and the digest of one line does not stand in another."""
    randomness = salts()
    one, kept_one = commit({"path": "a"}, ["path"], randomness)
    two, kept_two = commit({"path": "a"}, ["path"], randomness)
    assert shown(two, by_digest(kept_one)) == ({}, 1)
    assert shown(one, by_digest(kept_one + kept_two)) == ({"path": "a"}, 0)


def test_a_name_in_clear_is_not_shown_twice() -> None:
    """A holder of the key who commits to a field that is there already deceives nobody."""
    for names in ("path", "_sd", "..."):
        disclosure = of("salt", names, "b")
        line = {"path": "a", "_sd": [digest(disclosure)]}
        with pytest.raises(Break) as broken:
            shown(line, by_digest([disclosure]))
        assert broken.value.reason == "disclosure"


def test_one_name_is_not_shown_by_two_commitments() -> None:
    """Two disclosures of one field in one line are a break, whichever comes first."""
    both = [of("salt", "path", "a"), of("salt", "path", "b")]
    line = {"_sd": sorted(digest(d) for d in both)}
    with pytest.raises(Break):
        shown(line, by_digest(both))


@pytest.mark.parametrize(
    "value",
    [
        [],
        "text",
        [1],
        ["short"],
        ["A" * 43, "A" * 43],
        ["B" * 43, "A" * 43],
        ["A" * 42 + "="],
        None,
    ],
)
def test_digests_have_one_form(value: object) -> None:
    """A list of digests that is empty, unsorted, doubled or of another form is a break."""
    with pytest.raises(Break) as broken:
        committed({"_sd": value})
    assert broken.value.reason == "schema"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "!",
        "A",
        of(),
        of("salt", "name"),
        of("salt", "name", 1, 2),
        of("salt", 3, 4),
        of(3, "name", 4),
        of("salt", "name", 1.5),
        of("salt", "name", 1) + "=",
        urlsafe_b64encode(b'["s", "n", 1]').decode().rstrip("="),
        urlsafe_b64encode(b'1},"e":{"d":["s","n",1]').decode().rstrip("="),
        urlsafe_b64encode(b'["s","n",1],"e":2').decode().rstrip("="),
        urlsafe_b64encode(b"\xff\xfe").decode().rstrip("="),
        urlsafe_b64encode(b'{"0":"s"}').decode().rstrip("="),
        "\u00e9",
    ],
)
def test_what_is_no_disclosure_is_refused(text: str) -> None:
    """Anything but canonical JSON of a salt, a name and a value is a break, never a crash."""
    with pytest.raises(Break) as broken:
        read_disclosure(text)
    assert broken.value.reason == "disclosure"


@given(text=st.text(max_size=40))
def test_no_text_crashes_the_reader(text: str) -> None:
    """Random text is a disclosure or a break."""
    try:
        read_disclosure(text)
    except Break:
        return


def test_the_plain_digest_is_the_same_hash() -> None:
    """The hex spelling is that of the bytes behind the base64url one."""
    assert plain_digest(digest("x")) == sha256(b"x").hexdigest()


def test_public_vectors(shared: Path) -> None:
    """The digest of every public example disclosure is the one that is published."""
    rows = json.loads((shared / "vectors/sd-jwt/disclosure.json").read_text())
    assert rows
    for row in rows:
        assert digest(row["disclosure"]) == row["rfc9901_digest"]
