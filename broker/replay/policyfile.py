"""
A suggested scope as the text of a policy file, with tests of its own.

Decided here: what the file says of where it comes from, and which calls become its ``expect``
lines: one that ran for each tool, and a few near misses. Not decided here: what they come to; that
is asked (``decide``), and a line is only written when it holds. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from broker.calls import Decision
from broker.catalogs.entry import ToolEntry
from broker.errors import ScopeError
from broker.language.patterns import first_unseen
from broker.language.toolnames import lawful_tool
from broker.replay.reading import ReadCall
from broker.replay.suggest import Suggestion
from broker.scope import check_text, parse_pieces

Decide = Callable[[str, dict[str, object]], Decision]
Known = Callable[[str], ToolEntry | None]

_MISSES: Final[tuple[tuple[str, Mapping[str, object]], ...]] = (
    ("write_file", {"path": ".github/workflows/ci.yml", "content": ""}),
    ("write_file", {"path": "../elsewhere.txt", "content": ""}),
    ("fetch", {"url": "https://example.org/"}),
    ("shell", {"command": "true"}),
)
_PATHS: Final[Mapping[str, str]] = {
    "path-read": "read",
    "path-list": "read",
    "path-tree": "read",
    "path-write": "write",
    "path-nofollow": "write",
    "path-delete": "write",
}


def policy_text(
    suggestion: Suggestion,
    calls: Iterable[ReadCall],
    *,
    about: str,
    known: Known,
    decide: Decide,
) -> str:
    """
    Return the text of a policy file.

    Args:
        suggestion: the scope.
        calls: those that it was suggested from, for the ``expect`` lines.
        about: one line that says what the policy is for.
        known: what a catalog says of a tool by its whole name.
        decide: what a call comes to under this scope, in an empty workspace.
    """
    lines = [f"# {_plain(about)}"]
    lines += [f"# Not limited: {_plain(left)}." for left in suggestion.left_open]
    width = max(len(text.key) for text in suggestion.texts)
    for text in suggestion.texts:
        lines.append(f"{text.key.ljust(width)} = {text.text.partition('=')[2]}")
    lines.append("")
    lines += _expected(calls, known, decide)
    for tool, arguments in _MISSES:
        decision = decide(tool, dict(arguments))
        if decision.refusal is not None:
            call = _spelled(tool, arguments)
            lines.append(f"expect refuse {call}  # {decision.refusal.caveat}")
    return "\n".join(lines) + "\n"


def _expected(calls: Iterable[ReadCall], known: Known, decide: Decide) -> list[str]:
    """Return an ``expect allow`` line for each tool of which one can be made that holds."""
    lines: dict[str, str] = {}
    for read in calls:
        if read.name in lines or not lawful_tool(read.name):
            continue
        arguments = _arguments(read, known(read.name))
        if decide(read.name, dict(arguments)).refusal is not None:
            continue
        line = f"expect allow  {_spelled(read.name, arguments)}"
        try:
            check_text(line)
            parse_pieces(line, "expect")
        except ScopeError:
            continue
        lines[read.name] = line
    return [lines[name] for name in sorted(lines)]


def _arguments(read: ReadCall, entry: ToolEntry | None) -> dict[str, object]:
    """Return arguments by which a tool touches what a call touched, as far as it can be told."""
    found: dict[str, object] = {}
    paths = {"read": [], "write": []}  # type: dict[str, list[str]]
    for path in read.call.paths:
        if path.places:
            paths[path.access].append(path.places[-1].rstrip("/") or ".")
    urls = [f"{url.scheme}://{url.keys[-1]}/" for url in read.call.urls if url.keys]
    for name, spec in (entry.arguments if entry is not None else {}).items():
        access = _PATHS.get(spec.role, "")
        if access and paths[access]:
            found[name] = paths[access].pop(0)
        elif spec.role == "url" and urls:
            found[name] = urls.pop(0)
        elif spec.role == "opaque":
            found[name] = "true"
        elif spec.required:
            found[name] = "x"
    return found


def _spelled(tool: str, arguments: Mapping[str, object]) -> str:
    values = [f"{name}={json.dumps(value)}" for name, value in arguments.items()]
    return f"{tool}({', '.join(values)})"


def _plain(text: str) -> str:
    """Return text that can stand in a comment: on one line, all of it seen."""
    text = " ".join(text.split())
    while (at := first_unseen(text)) >= 0:
        text = f"{text[:at]}?{text[at + 1 :]}"
    return text
