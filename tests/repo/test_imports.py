"""
Which module may import which, and what the pure core may import at all.

`LAYERS` is the house: a module imports from its own layer and those below it. `lint-imports`
holds the coarse shape; this holds every module, every import inside a function, and purity.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# From the ground up. A name that ends in a dot stands for a package and all that is in it.
LAYERS: dict[str, tuple[str, ...]] = {
    "core": (
        "errors",
        "limits",
        "calls",
        "language.",
        "globs",
        "hosts",
        "instants",
        "caveats",
        "conditions",
        "admitting",
        "rules",
        "rulebook",
        "scope",
        "bounds",
        "wire",
        "ticket",
        "authorize",
        "difference",
    ),
    "home": ("home",),
    "receipt": ("receipt.",),
    "handed out": ("standalone.",),
    "export": ("export.",),
    "capabilities": ("capabilities.",),
    "session": (
        "catalogs.",
        "redaction.",
        "boundary",
        "resolution.",
        "resolve",
        "policy",
        "config",
        "configfile",
        "project",
        "budget",
        "budgets.",
        "guard",
        "intent",
        "events",
        "permissions.",
        "opinions.",
        "sessions.",
        "session",
    ),
    "anchors": ("anchors.",),
    "fleet": ("fleet.",),
    "trace": ("trace.",),
    "doors": (
        "service.",
        "api",
        "frameworks.",
        "loopback.",
        "hook",
        "hookclient",
        "child",
        "descendants",
        "agents.",
        "capture.",
        "launch",
        "launchwords",
        "program",
        "mailbox",
        "plugins",
        "asking",
        "telling",
        "sandbox.",
        "harness.",
        "agentloop.",
        "mcp.",
        "records.",
        "replay.",
        "testing.",
        "inspection.",
    ),
    "command line": ("cli.",),
}

# What the core may import of the standard library: nothing that knows the time, the machine, the
# environment or chance, and nothing that writes. `datetime` is there for the calendar; its clock
# is a forbidden call.
PURE = frozenset(
    """
    __future__ base64 binascii bisect calendar collections dataclasses datetime decimal difflib enum
    functools
    hashlib hmac heapq itertools json math operator re string struct types typing unicodedata
    """.split()  # noqa: SIM905 - a list of words reads better than a page of quotes
)
# A library that only one core module may import, and only inside a function.
LAZY = {"lark": "scope", "importlib": "scope", "ada_url": "language.urls"}
IMPURE_CALLS = frozenset({"open", "print", "input", "exec", "eval", "__import__", "breakpoint"})
IMPURE_NAMES = frozenset({"now", "utcnow", "today", "environ", "getenv", "urandom"})

Import = tuple[str, bool]  # the module, and whether importing waits for a call, or never happens


def layer(module: str) -> str | None:
    """Return the layer of a module, named without the leading `broker.`, if the table has it."""
    for name, members in LAYERS.items():
        if any(module == m.rstrip(".") or (m[-1] == "." and module.startswith(m)) for m in members):
            return name
    return None


def modules(root: Path) -> dict[str, Path]:
    """Return the file of every module under `broker/`, named without the leading `broker.`."""
    found = {}
    for path in sorted((root / "broker").rglob("*.py")):
        parts = path.relative_to(root / "broker").with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = path
    return found


def imports(path: Path, module: str) -> Iterator[Import]:
    """Yield everything that a module imports; `from a import b` yields `a.b`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {
        id(node)
        for part in ast.walk(tree)
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) or _only_types(part)
        for node in ast.walk(part)
    }
    package = ["broker", *module.split(".")]
    if path.name != "__init__.py":
        package.pop()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((f"{start}.{alias.name}", id(node) in inside) for alias in node.names)


def _only_types(part: ast.AST) -> bool:
    return (
        isinstance(part, ast.If)
        and isinstance(part.test, ast.Name)
        and part.test.id == "TYPE_CHECKING"
    )


def target(name: str, known: dict[str, Path]) -> str | None:
    """Return the module of this package that an import reaches, if it is one of this package."""
    parts = name.split(".")
    if parts[0] != "broker":
        return None
    if len(parts) > 2 and parts[1] not in known:
        return None  # no such module: the type checker says so
    while len(parts) > 1 and ".".join(parts[1:]) not in known:
        parts.pop()
    return ".".join(parts[1:])


def misplaced(root: Path) -> list[str]:
    """Return every import that points upwards, and every module without a layer."""
    known = modules(root)
    order = list(LAYERS)
    wrong = []
    for module, path in known.items():
        if not module:
            continue  # the package itself: it names its modules as text, see test_public_api.py
        mine = layer(module)
        if mine is None:
            wrong.append(f"broker.{module}: add it to the table in tests/repo/test_imports.py")
            continue
        for name, _ in imports(path, module):
            theirs = target(name, known)
            if theirs == "":
                wrong.append(f"broker.{module}: import `{name}` from the module that defines it")
            there = layer(theirs) if theirs else None
            if there is not None and order.index(there) > order.index(mine):
                wrong.append(f"broker.{module} ({mine}) imports broker.{theirs} ({there})")
    return wrong


def impure(root: Path) -> list[str]:
    """Return whatever a core module imports or calls that does not belong in the core."""
    wrong = []
    for module, path in modules(root).items():
        if not module or layer(module) != "core":
            continue
        for name, lazy in imports(path, module):
            top = name.split(".")[0]
            if top != "broker" and top not in PURE and not (lazy and LAZY.get(top) == module):
                wrong.append(f"broker.{module}: the core may not import `{name}`")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                called = node.func
                if isinstance(called, ast.Name) and called.id in IMPURE_CALLS:
                    wrong.append(f"broker.{module}:{node.lineno}: the core may not `{called.id}`")
            if isinstance(node, ast.Attribute) and node.attr in IMPURE_NAMES:
                wrong.append(f"broker.{module}:{node.lineno}: the core may not use `{node.attr}`")
    return wrong


def cycles(root: Path) -> list[str]:
    """Return every pair of modules that need each other while they are being imported."""
    known = modules(root)
    needs = {
        module: {
            there
            for name, lazy in imports(path, module)
            if not lazy and (there := target(name, known)) and there != module
        }
        for module, path in known.items()
        if module
    }
    wrong = []
    for start, first in needs.items():
        reached, waiting = set(), [*first]
        while waiting:
            module = waiting.pop()
            if module not in reached:
                reached.add(module)
                waiting += needs.get(module, set())
        if start in reached:
            wrong.append(f"broker.{start} needs itself")
    return wrong


def test_dependencies_point_downwards() -> None:
    """Every module has a layer, and imports nothing from a layer above."""
    assert misplaced(ROOT) == []


def test_the_core_is_pure() -> None:
    """The core knows no clock, file, environment or chance, and loads its two libraries late."""
    assert impure(ROOT) == []


def test_no_module_needs_itself() -> None:
    """Imports form no circle."""
    assert cycles(ROOT) == []


def test_the_core_loads_no_library() -> None:
    """Importing the whole core brings in none of the libraries."""
    core = [f"broker.{name}" for name in modules(ROOT) if name and layer(name) == "core"]
    heavy = {"pydantic", "lark", "ada_url", "typer", "cryptography", "asyncio", "logging", "socket"}
    code = f"import {', '.join(core)}, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    bare = subprocess.run(
        [sys.executable, "-c", "import sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not (set(done.stdout.split()) - set(bare.stdout.split())) & heavy


BAD = [
    (misplaced, "errors.py", "from broker.cli import main", "imports broker.cli"),
    (misplaced, "errors.py", "def f():\n    import broker.receipt.store", "broker.receipt"),
    (misplaced, "receipt/store.py", "from ..session import Session", "imports broker.session"),
    (misplaced, "receipt/store.py", "from .. import session", "imports broker.session"),
    (misplaced, "session.py", "from broker import cli", "imports broker.cli"),
    (misplaced, "session.py", "from broker import authorize", "module that defines it"),
    (misplaced, "session.py", "import broker", "module that defines it"),
    (misplaced, "novel.py", "", "add it to the table"),
    (misplaced, "receiptless.py", "", "add it to the table"),
    (impure, "limits.py", "import os", "`os`"),
    (impure, "limits.py", "def f():\n    from time import time", "`time.time`"),
    (impure, "limits.py", "from random import random", "`random.random`"),
    (impure, "scope.py", "import lark", "`lark`"),
    (impure, "hosts.py", "def f():\n    import lark", "`lark`"),
    (impure, "scope.py", "if TYPE:\n    import lark", "`lark`"),
    (impure, "instants.py", "import datetime\nx = datetime.datetime.now()", "`now`"),
    (impure, "limits.py", "def f(p):\n    return open(p)", "`open`"),
    (cycles, "home.py", "from broker.errors import a", "broker.errors needs itself"),
]


@pytest.mark.parametrize(("check", "name", "text", "word"), BAD)
def test_a_bad_import_is_found(
    check: object, name: str, text: str, word: str, tmp_path: Path
) -> None:
    """Each of these checks complains about a tree that breaks it."""
    good = {
        "__init__.py": "",
        "errors.py": "from broker.home import b" if check is cycles else "",
        "limits.py": "import re\nx = re.compile('a')",
        "session.py": "from broker.errors import a\nfrom .receipt import store",
        "receipt/__init__.py": "",
        "receipt/store.py": "import os\nfrom ..errors import a\nfrom . import entry",
        "receipt/entry.py": "",
        "cli/__init__.py": "",
        "scope.py": "if TYPE_CHECKING:\n    import lark\ndef f():\n    import lark",
    }
    write(tmp_path, good)
    assert callable(check)
    assert check(tmp_path) == []
    write(tmp_path, {name: text})
    assert any(word in fault for fault in check(tmp_path))


def write(root: Path, texts: dict[str, str]) -> None:
    """Write the modules of a made-up `broker/`."""
    for name, text in texts.items():
        (root / "broker" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "broker" / name).write_text(text + "\n", encoding="utf-8")
