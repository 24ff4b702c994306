"""
Scopes that are spelled rightly and are surely, or probably, not what was meant.

Decided here: which of them are errors and which are warnings. Not decided here: what a text may
look like (``grammar/scope.lark``) and slips inside one rule (``broker.language.rulelint``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from broker.caveats import Caveat
from broker.language.pieces import fault
from broker.language.scopetext import brief, render, spell


@dataclass(frozen=True, slots=True)
class Pair:
    """One KEY=VALUE text that was read; ``spelled`` are a list's items, groups by their name."""

    caveat: Caveat
    spelled: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def repeated(typed: Sequence[Pair]) -> list[str]:
    """Return a warning for each key that was typed more than once."""
    warnings = []
    by_kind: dict[str, list[Pair]] = {}
    for pair in typed:
        by_kind.setdefault(pair.caveat.kind, []).append(pair)
    for kind, several in by_kind.items():
        if len(several) < 2:
            continue
        if isinstance(several[0].caveat.value, tuple):
            either = list(dict.fromkeys(item for pair in several for item in pair.spelled))
            how = f"to allow either, write one list: {brief(kind, either or ['none'])}"
        else:
            how = "the smaller one counts" if kind == "calls" else "the earlier one counts"
        warnings.append(f"`{kind}` is given {len(several)} times and all must hold; {how}")
    return warnings


def refuse_disjoint_tools(caveats: Sequence[Caveat]) -> None:
    """Refuse lists of plain tool names that have none in common: no call can ever pass."""
    common: set[str] | None = None
    for caveat in caveats:
        items = caveat.value
        if caveat.kind != "tools" or not isinstance(items, tuple) or not items:
            continue
        names = [item if isinstance(item, str) else item.tool for item in items]
        if any("*" in name for name in names):
            continue
        shared = set(names) if common is None else common.intersection(names)
        if not shared:
            text = brief("tools", [spell("tools", name) for name in names])
            raise fault(
                text,
                "no tool stands in every `tools` list, so no call could ever pass",
                text.index("=") + 1,
                "all lists must hold; to allow either, write one list",
            )
        common = shared


def never_passes(caveats: Sequence[Caveat]) -> list[str]:
    """Return a warning for each caveat that admits no call."""
    return [
        f"`{render([caveat])[0]}` allows no call at all"
        for caveat in caveats
        if (caveat.kind == "calls" and caveat.value == 0)
        or (caveat.kind == "tools" and caveat.value == ())
    ]
