"""
A JSON value as what changed in it, and the value again.

A conversation is sent whole with every request, so keeping each body whole would take the square
of what was said. A request is kept as the change to one before it in the same conversation: new
messages, a mark that moved, a line of a prompt that is another one now.

Decided here: how a change is spelled, and how it is undone. Not decided here: which request it is a
change to (``broker.trace.requests``).

A change is a JSON object of one of these forms:

- ``{"is": VALUE}``: the value itself;
- ``{"set": {KEY: VALUE}, "in": {KEY: CHANGE}, "gone": [KEY], "order": [KEY]}``: an object; each
  part may be missing, and ``{}`` is no change;
- ``{"keep": N, "in": {INDEX: CHANGE}, "append": [VALUE]}``: a list, of which the first N stay;
- ``{"head": N, "tail": N, "mid": TEXT}``: a text, of which so many characters stay at both ends.

Rules a maintainer keeps: ``rebuild(delta(a, b), a)`` is ``b``, with its keys in their order and
with ``1`` apart from ``true`` and ``1.0``; a change read from a file may be anything, and makes
nothing fail in another way than ``TraceError``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NoReturn

from broker.errors import TraceError

if TYPE_CHECKING:
    from broker.trace.format import Event
    from broker.trace.reader import RunReader

_LEAST_SHARED: Final = 64  # characters that two texts share at the least, to be told apart in part
_MAX_TEXT: Final = 2**28  # characters of a text that a change may make


def delta(before: object, after: object) -> dict[str, object]:
    """
    Return what makes ``after`` of ``before``; both are JSON values.

    Raises:
        RecursionError: they are nested too deeply.

    >>> delta({"m": ["a"], "n": 1}, {"m": ["a", "b"], "n": 1})
    {'in': {'m': {'keep': 1, 'append': ['b']}}}
    """
    if _same(before, after):
        return {"keep": len(before)} if isinstance(before, list) else _unchanged(after)
    if isinstance(before, dict) and isinstance(after, dict):
        return _object_delta(before, after)
    if isinstance(before, list) and isinstance(after, list):
        return _list_delta(before, after)
    if isinstance(before, str) and isinstance(after, str):
        return _text_delta(before, after)
    return {"is": after}


def rebuild(change: object, before: object) -> object:
    """
    Return the value that a change makes of another. Neither is changed.

    Raises:
        TraceError: the change is malformed, or is none of this value.

    >>> rebuild({"keep": 1, "append": ["b"]}, ["a", "x"])
    ['a', 'b']
    """
    if not isinstance(change, dict):
        _malformed("a change must be an object")
    if "is" in change:
        return change["is"]
    if "keep" in change:
        return _rebuilt_list(change, before)
    if "mid" in change:
        return _rebuilt_text(change, before)
    return _rebuilt_object(change, before)


def rebuilt(reader: RunReader, seq: int) -> object:
    """
    Return the whole body of a recorded request to a model: JSON, or bytes where it is none.

    Args:
        reader: the run.
        seq: the number of a ``model.request``.

    Raises:
        TraceError: there is no such request, or it cannot be rebuilt.
    """
    changes: list[object] = []
    while True:
        found = reader.requests().get(seq)
        if found is None:
            raise TraceError(f"there is no request to a model at {seq}", code="trace.request")
        payload = reader.payload(found)
        if found.attrs.get("delta") is not True:
            break
        if not isinstance(payload, dict):
            _malformed(f"the request at {seq} says no change")
        base = payload.get("base")
        if isinstance(base, bool) or not isinstance(base, int) or not 0 <= base < seq:
            _malformed(f"the request at {seq} is a change to none before it")
        changes.append(payload.get("change"))
        seq = base
    try:
        for change in reversed(changes):
            payload = rebuild(change, payload)
    except RecursionError:
        _malformed("a change is nested too deeply")
    return payload


def all_rebuilt(reader: RunReader) -> Iterator[tuple[int, object]]:
    """
    Yield the number and the whole body of each recorded request, each undone once.

    What cannot be rebuilt comes as a ``TraceError`` in the place of its body. Kept in mind is the
    last body of each conversation.
    """
    last: dict[object, tuple[int, object]] = {}
    for seq, found in sorted(reader.requests().items()):
        name = found.text("conversation")
        try:
            body = _from_last(reader, found, last.get(name))
        except TraceError as error:
            yield seq, error
            continue
        last[name] = (seq, body)
        yield seq, body


def _from_last(reader: RunReader, found: Event, last: tuple[int, object] | None) -> object:
    payload = reader.payload(found)
    if found.attrs.get("delta") is not True:
        return payload
    if last is None or not isinstance(payload, dict) or payload.get("base") != last[0]:
        return rebuilt(reader, found.seq)
    try:
        return rebuild(payload.get("change"), last[1])
    except RecursionError:
        _malformed("a change is nested too deeply")


# ── making a change ──


def _unchanged(value: object) -> dict[str, object]:
    return {} if isinstance(value, dict) else {"is": value}


def _object_delta(before: dict[str, object], after: dict[str, object]) -> dict[str, object]:
    fresh: dict[str, object] = {}
    inside: dict[str, object] = {}
    for key, value in after.items():
        if key not in before:
            fresh[key] = value
        elif not _same(before[key], value):
            change = delta(before[key], value)
            if "is" in change:
                fresh[key] = value
            else:
                inside[key] = change
    gone = [key for key in before if key not in after]
    found: dict[str, object] = {}
    if fresh:
        found["set"] = fresh
    if inside:
        found["in"] = inside
    if gone:
        found["gone"] = gone
    if _order(before, fresh, gone) != list(after):
        found["order"] = list(after)
    return found


def _list_delta(before: list[object], after: list[object]) -> dict[str, object]:
    kept = min(len(before), len(after))
    inside: dict[str, object] = {}
    for at in range(kept):
        if not _same(before[at], after[at]):
            inside[str(at)] = delta(before[at], after[at])
    found: dict[str, object] = {"keep": kept}
    if inside:
        found["in"] = inside
    if len(after) > kept:
        found["append"] = after[kept:]
    return found


def _text_delta(before: str, after: str) -> dict[str, object]:
    head = _shared(before, after, min(len(before), len(after)), from_end=False)
    tail = _shared(before, after, min(len(before), len(after)) - head, from_end=True)
    if head + tail < _LEAST_SHARED:
        return {"is": after}
    return {"head": head, "tail": tail, "mid": after[head : len(after) - tail]}


def _shared(one: str, other: str, most: int, *, from_end: bool) -> int:
    """Return how many characters two texts share at an end, by halving: slices compare fast."""
    least = 0
    while least < most:
        half = (least + most + 1) // 2
        same = (
            one.endswith(other[len(other) - half :]) if from_end else one.startswith(other[:half])
        )
        least, most = (half, most) if same else (least, half - 1)
    return least


def _same(one: object, other: object) -> bool:
    """Whether two JSON values are spelled the same, to the order of their keys."""
    if isinstance(one, str) or one is other:
        return one == other
    return one == other and _spelled(one) == _spelled(other)


def _spelled(value: object) -> str:
    return json.dumps(value)


# ── undoing it ──


def _order(before: Mapping[str, object], fresh: Mapping[str, object], gone: list[str]) -> list[str]:
    """Return the keys as they come without being told: those that stay, then the new ones."""
    without = set(gone)
    return [k for k in before if k not in without] + [k for k in fresh if k not in before]


def _rebuilt_object(change: dict[str, object], before: object) -> dict[str, object]:
    if not isinstance(before, dict) or change.keys() - {"set", "in", "gone", "order"}:
        _malformed("it is a change to an object, and this is none")
    fresh, inside = _object(change.get("set", {})), _object(change.get("in", {}))
    gone = _keys(change.get("gone", []))
    if not inside.keys() <= before.keys():
        _malformed("it changes a key that is not there")
    found = {}
    for key in _order(before, fresh, gone):
        if key in fresh:
            found[key] = fresh[key]
        else:
            found[key] = rebuild(inside[key], before[key]) if key in inside else before[key]
    if "order" not in change:
        return found
    order = _keys(change["order"])
    if len(order) != len(found) or set(order) != found.keys():
        _malformed("it orders other keys than there are")
    return {key: found[key] for key in order}


def _rebuilt_list(change: dict[str, object], before: object) -> list[object]:
    kept, inside, more = change["keep"], _object(change.get("in", {})), change.get("append", [])
    if not isinstance(before, list) or not isinstance(more, list):
        _malformed("it is a change to a list, and this is none")
    if isinstance(kept, bool) or not isinstance(kept, int) or not 0 <= kept <= len(before):
        _malformed("it keeps more of a list than there is")
    found = before[:kept]
    for index, inner in inside.items():
        at = int(index) if index.isascii() and index.isdigit() and len(index) < 10 else kept
        if at >= kept:
            _malformed("it changes a place that is not there")
        found[at] = rebuild(inner, before[at])
    return found + more


def _rebuilt_text(change: dict[str, object], before: object) -> str:
    head, tail, mid = change.get("head"), change.get("tail"), change["mid"]
    if not isinstance(before, str) or not isinstance(mid, str):
        _malformed("it is a change to a text, and this is none")
    for size in (head, tail):
        if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= len(before):
            _malformed("it keeps more of a text than there is")
    assert isinstance(head, int)  # noqa: S101  told just now
    assert isinstance(tail, int)  # noqa: S101
    found = before[:head] + mid + before[len(before) - tail :]
    if len(found) > _MAX_TEXT:
        _malformed("it makes a text that is too long")
    return found


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        _malformed("a part of it must be an object")
    return value


def _keys(value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(key, str) for key in value):
        _malformed("a part of it must be a list of keys")
    return value


def _malformed(why: str) -> NoReturn:
    raise TraceError(f"a recorded change cannot be undone: {why}", code="trace.change")
