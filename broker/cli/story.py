"""
A receipt's entries as lines that a person reads from top to bottom.

Decided here: the words. What an entry holds is decided where it is written
(``broker.sessions.records``); an entry of a shape that is not known here is shown as its data.
Everything is escaped, because much of it was chosen by an agent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from broker.authorize import ASK
from broker.cli.output import paint, printable
from broker.instants import format_instant

if TYPE_CHECKING:
    from broker.cli.kept import Shown
    from broker.receipt import Entry

_NUMBER: Final = 4  # columns for an entry's number
_KIND: Final = 9  # columns for what happened
_SHOWN: Final = 4  # subjects of one call on one line

Data = Mapping[str, object]


def refuses(entry: Entry) -> bool:
    """Whether an entry records that something was refused."""
    return entry.data.get("decision") == "refuse"


def story_line(entry: Entry, shown: Shown | None = None) -> str:
    """
    Return one entry as one line: number, time of day, what happened, and to what.

    Args:
        entry: the entry.
        shown: what is held of the values that it only commits to.
    """
    day, time = format_instant(entry.at).rstrip("Z").split("T")
    time = (time if "." in time else time + ".").ljust(12, "0")
    word, colour = _word(entry)
    data, kept_out = entry.data, 0
    promised = data.get("_sd")
    if isinstance(promised, list):
        data = {name: value for name, value in data.items() if name != "_sd"}
        data |= shown.values if shown is not None else {}
        kept_out = len(promised) if shown is None else shown.kept_out
    told = _TELLERS.get(entry.kind, _data)(data) if data else ""
    if kept_out:
        told = f"{told}  ({kept_out} field{'s'[: kept_out > 1]} kept out)".lstrip()
    if entry.kind == "open":
        told = f"{day} UTC  {told}"
    happened = paint(word.ljust(_KIND), colour)
    return f"{entry.n:>{_NUMBER}}  {time[:12]:<12}  {happened}  {printable(told)}".rstrip()


def _word(entry: Entry) -> tuple[str, str]:
    if entry.kind == "decision":
        return ("refused", "red") if refuses(entry) else ("allowed", "green")
    return entry.kind, "red" if refuses(entry) else "dim"


def _text(data: Data, name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""


def _texts(data: Data, name: str) -> list[str]:
    value = data.get(name)
    return [v for v in value if isinstance(v, str)] if isinstance(value, list) else []


def _decision(data: Data) -> str:
    parts = [_text(data, "tool"), _subjects(data.get("subjects"))]
    if reason := _reason(data):
        parts.append(f"({_text(data, 'caveat')}) {reason}")
    elif (enforcement := _text(data, "enforcement")) not in ("gate", ""):
        parts.append(f"(enforcement: {enforcement})")
    if (actor := _text(data, "actor")) not in ("main", ""):
        parts.append(f"by {actor}")
    return "  ".join(part for part in parts if part)


def _reason(data: Data) -> str:
    """Return a refusal's reason without what was said to the agent beside it."""
    return _text(data, "reason").removesuffix(f"; {ASK}")


def _subjects(value: object) -> str:
    if not isinstance(value, list):
        return ""
    named = [s for s in value if isinstance(s, str)]
    for subject in value:
        if isinstance(subject, dict):
            named += [str(subject[k]) for k in ("path", "url", "command") if k in subject]
    more = len(named) - _SHOWN
    return ", ".join(named[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _ticket(data: Data) -> str:
    told = f"{_text(data, 'ticket')}  {' '.join(_texts(data, 'caveats')) or 'no caveat'}"
    for key, words in (("replaces", "replaces"), ("beside", "for one call beside")):
        if other := _text(data, key):
            told += f"  ({words} {other})"
    return told


def _delegate(data: Data) -> str:
    asked = _text(data, "asked_by")
    texts = " ".join(_texts(data, "caveats"))
    if data.get("decision") == "refuse":
        return f"asked by {asked}, refused ({_text(data, 'caveat')}): {_reason(data)}"
    to = f"to {holder}, " if (holder := _text(data, "holder")) else ""
    return f"{to}asked by {asked}: {_text(data, 'ticket')}  {texts}".rstrip()


def _intent(data: Data) -> str:
    return _text(data, "line") or _text(data, "text") or _data(data)


def _open(data: Data) -> str:
    parts = [_text(data, "agent"), _text(data, "workspace")]
    return " in ".join(part for part in parts if part) or _data(data)


def _note(data: Data) -> str:
    text = _text(data, "text")
    return f"{_text(data, 'source') or 'somebody'} says: {text}" if text else _data(data)


def _permission(data: Data) -> str:
    return " ".join([_text(data, "answer"), _text(data, "reason")]).rstrip() or _data(data)


def _result(data: Data) -> str:
    ok = data.get("ok")
    if not isinstance(ok, bool):
        return _data(data)
    return f"call {_text(data, 'call')} {'ended well' if ok else 'failed'}".replace("  ", " ")


def _seal(data: Data) -> str:
    return _text(data, "reason") or _data(data)


def _revoke(data: Data) -> str:
    return f"ticket {_text(data, 'ticket')}, by the {_text(data, 'by')}: {_text(data, 'reason')}"


def _recover(data: Data) -> str:
    kept = _text(data, "kept")
    return (
        f"a line of {data.get('bytes')} bytes was cut off, and is in {kept}"
        if kept
        else _data(data)
    )


def _data(data: Data) -> str:
    return json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(", ", ": "))


_TELLERS: Final[Mapping[str, Callable[[Data], str]]] = {
    "open": _open,
    "intent": _intent,
    "ticket": _ticket,
    "delegate": _delegate,
    "decision": _decision,
    "note": _note,
    "permission": _permission,
    "recover": _recover,
    "result": _result,
    "revoke": _revoke,
    "seal": _seal,
}
