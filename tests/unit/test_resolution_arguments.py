"""Arguments are JSON or unreadable, and have one digest; unknown ones look like something."""

from __future__ import annotations

import json
import math
from hashlib import sha256

import pytest

from broker.limits import MAX_ARGUMENT_DEPTH, MAX_ARGUMENT_VALUES
from broker.resolution.arguments import (
    canonical_digest,
    clean,
    examine,
    leaves,
    lifts_limits,
    look,
    names,
)


def nested(depth: int) -> object:
    """Return lists in lists."""
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value", [{}, [], {"a": None}, {"a": [1, 1.5, True, "x", {"b": []}]}, math.nan, "\ud800"]
)
def test_json_is_readable(value: object) -> None:
    """Every JSON value can be looked at, with a digest of 64 hex digits."""
    reason, digest = examine(value)
    assert reason is None
    assert len(digest) == 64


@pytest.mark.parametrize(
    "value",
    [{1: 2}, {"a": object()}, {"a": (1,)}, {"a": {3}}, b"x", {"a": 1j}, {None: 1}, range(3)],
)
def test_other_values_are_not(value: object) -> None:
    """A Python value that JSON has no word for makes the arguments unreadable."""
    reason, digest = examine(value)
    assert reason is not None
    assert digest == canonical_digest(object())


def test_the_depth_is_bounded() -> None:
    """Arguments may be nested as deeply as the limit says, and not once more."""
    assert examine(nested(MAX_ARGUMENT_DEPTH))[0] is None
    assert "deeper" in str(examine(nested(MAX_ARGUMENT_DEPTH + 1))[0])


def test_deep_values_still_have_their_own_digest() -> None:
    """Nesting beyond all reason neither breaks the digest nor makes two values one."""
    assert canonical_digest(nested(100_000)) != canonical_digest(nested(100_001))


def test_the_number_of_values_is_bounded() -> None:
    """A list as long as the limit is read; a longer one, or one that holds itself, is not."""
    assert examine([0] * (MAX_ARGUMENT_VALUES - 1))[0] is None
    assert examine([0] * MAX_ARGUMENT_VALUES)[0] is not None
    circle: list[object] = []
    circle.append(circle)
    assert examine(circle)[0] is not None
    shared: object = [1] * 10
    for _ in range(MAX_ARGUMENT_DEPTH - 2):
        shared = [shared] * 10
    assert examine(shared)[0] is not None


def test_the_digest_is_that_of_canonical_json() -> None:
    """Names are in order, without blanks, in UTF-8."""
    text = '{"a":[1,true,null,"\u00e9"],"b":{"c":"x"}}'
    value = {"b": {"c": "x"}, "a": [1, True, None, "\u00e9"]}
    assert canonical_digest(value) == sha256(text.encode()).hexdigest()


def test_names_are_in_the_order_of_utf_16() -> None:
    """Names beyond the basic plane come before those at its end, as RFC 8785 has it."""
    low, high = "\uff5e", "\U0001f600"
    text = json.dumps({high: 1, low: 2}, ensure_ascii=False, separators=(",", ":"))
    assert canonical_digest({low: 2, high: 1}) == sha256(text.encode()).hexdigest()


def test_very_long_numbers_have_a_digest() -> None:
    """A number too long to print in decimal is told from its neighbour."""
    assert canonical_digest({"a": 10**50_000}) != canonical_digest({"a": 10**50_000 + 1})
    assert canonical_digest({"a": 10**2_000}) != canonical_digest({"a": 10**2_000 + 1})


def test_leaves_stand_in_order_with_their_place() -> None:
    """Every value below is found once, in order, with the name that holds it."""
    value = {"a": ["x", {"b": None}], "c": []}
    assert list(leaves(value, "p")) == [("p.a[0]", "a", "x"), ("p.a[1].b", "b", None)]
    assert list(leaves("x", "p", "n")) == [("p", "n", "x")]


def test_the_name_of_a_place_is_bounded() -> None:
    """Long names do not add up without end."""
    value: object = "x"
    for _ in range(60):
        value = {"k" * 1_000: value}
    [(place, _, _)] = leaves(value, "p")
    assert len(place) < 400
    assert list(names(value)) == ["k" * 1_000] * 60


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("FILE-Path", "a", "path"),
        ("cwd", "a", "path"),
        ("destination", "x", "path"),
        ("note", "/etc/passwd", "path"),
        ("note", "~/x", "path"),
        ("note", "..", "path"),
        ("note", "./x", "path"),
        ("note", "C:\\x", "path"),
        ("note", "\\\\server\\x", "path"),
        ("note", "https://a.example/", "url"),
        ("note", "file:/etc/passwd", "url"),
        ("source", "https://a.example/", "url"),
        ("source", "https://../../x", "path"),
        ("callback", "x", "url"),
        ("path ", "x", "path"),
        ("path\0", "x", "path"),
        ("file.path[]", "x", "path"),
        ("\uff50ath", "x", "path"),
        ("old_path", "x", "path"),
        ("outputFileName", "x", "path"),
        ("avatarUrl", "x", "url"),
        ("xpath", "a", "text"),
        ("JSON-path", "a", "text"),
        ("base_url", "x", "url"),
        ("note", "see /etc/passwd", "text"),
        ("note", "/a\nb", "text"),
        ("note", "a/b", "text"),
        ("query", "see https://a.example/", "text"),
        ("name", "...", "text"),
    ],
)
def test_what_an_unknown_argument_looks_like(name: str, text: str, kind: str) -> None:
    """A name or a whole text can look like a path or an address; a mention of one does not."""
    assert look(name, text) == kind


@pytest.mark.parametrize("value", [True, 1, "false", "", [], {}])
def test_a_switch_that_is_not_plainly_off_is_on(value: object) -> None:
    """Only false and nothing leave a switch off."""
    assert lifts_limits("DisableSandbox", value)
    assert lifts_limits("with_escalated_permissions", value)
    assert not lifts_limits("enable_sandbox", value)
    assert not lifts_limits("no-sandbox", False)
    assert not lifts_limits("no_sandbox", None)


def test_text_is_cleaned_for_writing_down() -> None:
    """Half characters are replaced and endless text is cut."""
    assert clean("a\ud800") == "a?"
    assert clean("\u00e9") == "\u00e9"
    assert len(clean("x" * 10_000)) == 201
