"""
A request to a model without what differs between two runs of the same agent.

Decided here: what is left out, renamed or blotted out before two requests are compared. Not decided
here: how close two requests must be (``broker.replay.matching``). Pure.

=====  ===========================================================================================
rule   what
=====  ===========================================================================================
N1     fields that tell who asks and are no part of the question are left out: ``metadata``,
       ``user``, ``safety_identifier``, ``prompt_cache_key``, ``client_metadata`` and the like, and
       every ``cache_control``
N2     tools stand in the order of their names
N3     identifiers (of calls, answers, sessions and processes, UUIDs, 16 hex digits or more) are
       named by the order in which they first stand in the request: whoever renames all alike is
       the same
N4     instants, dates, times of day and numbers of seconds since 1970 are one and the same
N5     folders of the run (where it ran, the home, its own temporary folder) are named by what they
       are, also where an agent spells them with dashes
N6     addresses on loopback have no port
N7     lengths of time with a unit are one and the same
N8     what stands for a secret stands for any, since each record has a salt of its own
N9     a line of billing in the system prompt is left out
=====  ===========================================================================================

The model's name is compared as it is. Rules a maintainer keeps: whatever is blotted out is less
that is compared, so a rule names a form that no question is made of; a body of any shape passes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

LEFT_OUT: Final = frozenset(
    (
        *("metadata", "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"),
        *("client_metadata", "session_id", "request_id", "user_prompt_id", "stream_options"),
    )
)
_MARKS: Final = frozenset(("cache_control",))  # left out at every depth
_KEPT: Final = "model"
_MAX_DEPTH: Final = 100
_MIN_PLACE_CHARS: Final = 4  # a shorter folder's name stands in too many texts
_SECONDS: Final = range(1_500_000_000, 2_200_000_000)  # what is taken for an instant since 1970

_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*"
_CLOCK = r"\d\d:\d\d(?::\d\d(?:\.\d+)?)?"
_ZONE = r"(?:Z|\s?[+-]\d\d:?\d\d)?"
_FORMS: Final = re.compile(
    "|".join(
        (
            r"(?P<hidden>\[hidden[^\[\]]{0,40}\])",
            r"(?P<billing>x-anthropic-billing-header:[^\n]*)",
            r"(?P<id>(?<![0-9a-fA-F-])[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"
            r"|\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{16,64}\b"
            r"|(?<=Chunk ID: )[0-9a-f]{4,16}\b|(?<=Process Group PGID: )\d+\b"
            r"|\b(?:toolu|srvtoolu|call|msg|resp|rs|fc|ctc|chatcmpl|ses|prt|req|run)"
            r"[-_][0-9A-Za-z_-]{8,}\b)",
            rf"(?P<time>\b\d{{4}}-\d\d-\d\d(?:[T ]{_CLOCK}{_ZONE})?"
            rf"|\b{_DAY},? {_MONTH} \d{{1,2}},?(?: {_CLOCK})?(?: \d{{4}})?"
            rf"|\b{_DAY}, \d{{1,2}} {_MONTH} \d{{4}}(?: {_CLOCK}{_ZONE})?"
            rf"|\b{_MONTH} \d{{1,2}}, \d{{4}}|\b\d{{1,2}}/\d{{1,2}}/\d{{4}}\b"
            r"|\b\d\d:\d\d:\d\d(?:\.\d+)?\b|(?<![\d.])1[5-9]\d{8}(?:\d{3})?(?:\.\d+)?(?!\d))",
            r"(?P<loopback>\b(?:127\.0\.0\.1|localhost):\d{2,5}\b)",
            r"(?P<span>(?<=duration_ms)\D{1,4}\d+|\b\d+(?:\.\d+)?\s?(?:ms|µs|us|s|secs?|seconds?)\b)",
        )
    )
)
_STANDS_FOR: Final = {
    "hidden": "[hidden]",
    "billing": "",
    "time": "<time>",
    "loopback": "<loopback>",
    "span": "<span>",
}
_OPEN, _CLOSE = "\ue000", "\ue001"  # around an identifier that is not named yet
_UNNAMED: Final = re.compile(f"{_OPEN}([^{_CLOSE}]*){_CLOSE}")


class Normal:
    """
    Makes requests comparable.

    Args:
        places: folders of the run that asks, and what each is called: ``{"/home/a/ws": "<cwd>"}``.

    >>> normal = Normal({"/tmp/ws": "<cwd>"})
    >>> one = {"model": "m", "messages": ["in /tmp/ws at 2026-11-30T08:00:00Z, call_12345678"]}
    >>> normal.body(one)["messages"]
    ['in <cwd> at <time>, <id 1>']
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        self._names = _named_places(places)
        texts = sorted(self._names, key=len, reverse=True)
        self._places = re.compile("|".join(map(re.escape, texts))) if texts else None
        self._text = lru_cache(maxsize=4_096)(self._blotted)

    def body(self, body: object) -> object:
        """Return a body's normal form; one that is no object passes as it is, blotted."""
        ids: dict[str, str] = {}
        if not isinstance(body, dict):
            return self._value(body, ids, 0)
        found = {
            name: value if name == _KEPT else self._value(value, ids, 0)
            for name, value in sorted(body.items())
            if name not in LEFT_OUT
        }
        tools = found.get("tools")
        if isinstance(tools, list):
            found["tools"] = sorted(tools, key=spelled)
        return found

    def _value(self, value: object, ids: dict[str, str], depth: int) -> object:
        if depth > _MAX_DEPTH:
            return "<deep>"
        if isinstance(value, str):
            text = self._text(value)
            return _UNNAMED.sub(lambda m: _name(m[1], ids), text) if _OPEN in text else text
        if isinstance(value, dict):
            return {
                str(self._value(name, ids, depth)): self._value(inner, ids, depth + 1)
                for name, inner in value.items()
                if name not in _MARKS
            }
        if isinstance(value, list):
            return [self._value(inner, ids, depth + 1) for inner in value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1_000 if value > _SECONDS.stop else value
            return "<time>" if _SECONDS.start <= seconds < _SECONDS.stop else value
        return value

    def _blotted(self, text: str) -> str:
        text = text.replace(_OPEN, "").replace(_CLOSE, "")
        if self._places is not None:
            text = self._places.sub(lambda m: self._names[m[0]], text)
        return _FORMS.sub(_stand_in, text)


def spelled(value: object) -> str:
    """Return a normal form as one text, in which the order of names plays no part."""
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))


def _stand_in(found: re.Match[str]) -> str:
    kind = found.lastgroup or ""
    return f"{_OPEN}{found[0]}{_CLOSE}" if kind == "id" else _STANDS_FOR[kind]


def _name(text: str, ids: dict[str, str]) -> str:
    return ids.setdefault(text, f"<id {len(ids) + 1}>")


def _named_places(places: Mapping[str, str]) -> dict[str, str]:
    """Return what stands for a folder, by each of its spellings."""
    found: dict[str, str] = {}
    for place, name in places.items():
        for text in _spellings(place.rstrip("/")):
            if len(text) >= _MIN_PLACE_CHARS:
                found.setdefault(text, name)
    return found


def _spellings(place: str) -> Iterable[str]:
    """Yield how agents spell a folder: as it is, and as one name with dashes."""
    yield place
    yield re.sub(r"[^0-9A-Za-z]", "-", place)
