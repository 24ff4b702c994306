"""
Conditions on what tools were given, for a scope that is suggested.

Decided here: which arguments of a tool get a condition, and which one. What a catalog calls a
recipient, an identifier or a permission is held to the line that the person typed, where each value
stands in it; else to the values that were seen. An amount is held to the largest. Paths and
addresses are limited by ``writes`` and ``hosts`` already, and are only named, since a rule closes
what it does not name. Not decided here: whether a rule lets the calls through; that is asked.

A value that stands in no typed line was named by the model alone, and the reason says so: it may be
what somebody made the model say.

Rules a maintainer keeps: a tool gets conditions only where the arguments of all its calls are those
that were decided, and where a catalog tells what they are; a guess is no label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from broker.catalogs.entry import ToolEntry

Tried = Callable[[str], bool]

MAX_SHOWN: Final = 16  # values of one argument; more are no list that a person reads
_HELD: Final = ("recipient", "identifier", "permission", "date")
_AMOUNT: Final = "amount"
_UNSEEN_EFFECTS: Final = ("opaque", "delegate")


@dataclass(frozen=True, slots=True)
class ToolRule:
    """A tool with conditions as it is typed, and why it has those."""

    text: str
    why: str


def tool_rule(
    name: str,
    entry: ToolEntry | None,
    given: Sequence[Mapping[str, object] | None],
    tried: Tried,
) -> ToolRule | None:
    """
    Return a rule for a tool, or None where it gets none.

    Args:
        name: as it is typed in a list of tools.
        entry: what a catalog says of it.
        given: the arguments of each of its calls; None where they are not known.
        tried: whether a text in the tool's place lets every call through.

    >>> from broker.catalogs.entry import Argument
    >>> entry = ToolEntry("send", None, "egress", {"to": Argument("recipient")})
    >>> tool_rule("send", entry, [{"to": "a@x.org"}], lambda text: "intent" not in text).text
    'send(to in {"a@x.org"})'
    """
    if entry is None or not entry.vouched or entry.effect in _UNSEEN_EFFECTS:
        return None
    known = [each for each in given if each is not None]
    if len(known) != len(given):
        return None
    used = sorted({key for each in known for key, value in each.items() if _is_given(value)})
    if not any(_role(entry, key) in (*_HELD, _AMOUNT) for key in used):
        return None
    parts = {key: _open(key, known) for key in used}
    whys: list[str] = []
    for key in used:
        for part, why in _conditions(key, _role(entry, key), known):
            text = _text(name, {**parts, key: part})
            if tried(text):
                parts[key] = part
                whys.append(why)
                break
    text = _text(name, parts)
    if not whys or not tried(text):
        return None
    return ToolRule(text, "; ".join(whys))


def _conditions(
    key: str, role: str, given: Iterable[Mapping[str, object]]
) -> Iterable[tuple[str, str]]:
    """Yield conditions on an argument, the closest first, with the reason of each."""
    values = [value for each in given if _is_given(value := each.get(key))]
    mark = _open(key, given)
    flat = [one for value in values for one in (value if isinstance(value, list) else [value])]
    if role == _AMOUNT:
        numbers = [one for one in flat if isinstance(one, int | float) and not _is_flag(one)]
        if numbers and len(numbers) == len(flat):
            yield f"{mark}<={max(numbers)}", f"`{key}` was {max(numbers)} at most"
    elif role in _HELD:
        yield f"{mark} in intent", f"each `{key}` stands in what was typed"
        shown = list(dict.fromkeys(filter(None, map(_spelled, flat))))
        if len(flat) == len([one for one in flat if _spelled(one)]) and len(shown) <= MAX_SHOWN:
            yield f"{mark} in {{{', '.join(shown)}}}", f"`{key}` was named by the model alone"


def _text(name: str, parts: Mapping[str, str]) -> str:
    return f"{name}({', '.join(parts.values())})"


def _open(key: str, given: Iterable[Mapping[str, object]]) -> str:
    """Return an argument as one that may be anything, and left out where it was."""
    plain = key if key.isidentifier() and key.isascii() else _quoted(key)
    return plain if all(_is_given(each.get(key)) for each in given) else f"{plain}?"


def _role(entry: ToolEntry, key: str) -> str:
    spec = entry.arguments.get(key)
    return "" if spec is None else spec.role


def _is_given(value: object) -> bool:
    return value is not None and value not in ("", [], {})


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _spelled(value: object) -> str:
    """Return a value as it is typed, or nothing for one that is not."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return _quoted(value) if isinstance(value, str) and value.isprintable() else ""


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
