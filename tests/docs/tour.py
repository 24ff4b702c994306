"""
Checks a tour of the code against the code: sizes, and names that stand in backticks.

A size is written ``broker/ticket.py`` `` (331 lines)``; it may be off by a few lines, not by a
rewrite. A name is a path, a dotted ``broker.…`` name, a call like ``attenuate()``, or a name of
mixed case like ``TicketGuard``; whatever else stands in backticks is not judged.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

SLACK_LINES = 25
SIZE = re.compile(r"`([\w./-]+\.\w+)`\s*\(([0-9]+) lines\)")
QUOTED = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"(?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|md|toml|lark)")
DOTTED = re.compile(r"broker(?:\.\w+)+")
CALL = re.compile(r"((?:\w+\.)*\w+)\(.*\)")
MIXED = re.compile(r"[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)*(?:\.\w+)?")


def faults(page: str, root: Path) -> list[str]:
    """Return what a tour says about the code that is not so."""
    wrong = []
    for path, size in SIZE.findall(page):
        if (root / path).is_file():
            real = len((root / path).read_text(encoding="utf-8").splitlines())
            if abs(real - int(size)) > SLACK_LINES:
                wrong.append(f"`{path}` has {real} lines, not {size}")
    defined = _defined(root)
    outside_blocks = re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL)
    for name in dict.fromkeys(QUOTED.findall(outside_blocks)):
        if not _exists(name, root, defined):
            wrong.append(f"`{name}` is gone")
    return wrong


def _exists(name: str, root: Path, defined: set[str]) -> bool:
    if PATH.fullmatch(name):
        return (root / name).exists()
    if DOTTED.fullmatch(name):
        parts = name.split(".")
        while parts:
            place = root.joinpath(*parts)
            if place.is_dir() or place.with_suffix(".py").is_file():
                return all(part in defined for part in name.split(".")[len(parts) :])
            parts.pop()
        return False
    if called := CALL.fullmatch(name):
        return all(part in defined for part in called.group(1).split("."))
    if MIXED.fullmatch(name):
        return all(part in defined for part in name.split("."))
    return True


def _defined(root: Path) -> set[str]:
    """Return every name that the package defines: functions, classes, fields and constants."""
    names: set[str] = {"broker"}
    for path in (root / "broker").rglob("*.py"):
        names.add(path.stem)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
    return names
