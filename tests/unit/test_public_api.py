"""The public names: which they are, where they live, and what `import broker` costs."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

import broker

# A change of this list is a change of what users may rely on: it goes with a changelog line.
PUBLIC = [
    "Break",
    "Call",
    "Caveat",
    "Decision",
    "Intents",
    "Receipts",
    "Refusal",
    "Ticket",
    "TicketGuard",
    "append",
    "attach",
    "attenuate",
    "authorize",
    "check",
    "describe",
    "enforce",
    "from_scope",
    "load_or_create_key",
    "mint",
    "narrowed",
    "parse_scope",
    "render",
    "sign",
    "verify",
    "verify_chain",
]

PRESENT = [
    name for name in PUBLIC if (found := find_spec(broker._HOMES[name])) and found.has_location
]

HEAVY = [
    "pydantic",
    "lark",
    "typer",
    "click",
    "rich",
    "cryptography",
    "asyncio",
    "json",
    "re",
    "typing",
    "dataclasses",
]


def python(code: str) -> str:
    """Run the code in an interpreter of its own and return what it prints."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_public_names_are_these() -> None:
    """The public names are exactly the recorded ones, and each has a home."""
    assert sorted(broker.__all__) == PUBLIC == sorted(broker._HOMES)


@pytest.mark.parametrize("name", PRESENT)
def test_a_name_is_that_of_its_home(name: str) -> None:
    """A public name is the very object that its module defines."""
    assert getattr(broker, name) is getattr(importlib.import_module(broker._HOMES[name]), name)


def test_type_checkers_read_the_same_table() -> None:
    """The imports that only type checkers read name each public name's home."""
    tree = ast.parse(Path(broker.__file__).read_text(encoding="utf-8"))
    (block,) = (n for n in tree.body if isinstance(n, ast.If))
    seen = {
        alias.name: part.module
        for part in block.body
        if isinstance(part, ast.ImportFrom)
        for alias in part.names
    }
    assert seen.items() <= broker._HOMES.items()
    assert set(PRESENT) <= set(seen)


def test_each_name_is_used_as_a_type_checker_sees_it() -> None:
    """The file that mypy checks from outside uses every public name."""
    tree = ast.parse((Path(__file__).parents[1] / "typing_api.py").read_text(encoding="utf-8"))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert set(PRESENT) <= used


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A misspelt name fails as it would on any module."""
    with pytest.raises(AttributeError, match="'authorise'"):
        _ = broker.authorise
    with pytest.raises(ImportError, match="authorise"):
        exec("from broker import authorise")


def test_dir_lists_names_that_are_not_loaded_yet() -> None:
    """Completion shows every public name before its first use."""
    assert set(PUBLIC) <= set(dir(broker))


def test_a_submodule_does_not_take_a_public_name() -> None:
    """The import system's own binding of a submodule leaves a public name alone."""
    broker.Refusal  # noqa: B018 - loads it
    broker.Refusal = ModuleType("broker.Refusal")
    assert not isinstance(broker.Refusal, ModuleType)
    extra = ModuleType("broker.extra")
    broker.extra = extra
    assert broker.extra is extra
    del broker.extra


@pytest.mark.parametrize(
    "first",
    [
        "import broker.authorize",
        "from broker.authorize import authorize as early",
        "import importlib; importlib.import_module('broker.authorize')",
        "import broker; broker.authorize",
        "from broker import authorize; import broker.authorize",
        "from broker import authorize; import sys; del sys.modules['broker.authorize']",
        "pass",
    ],
)
def test_authorize_is_the_function_in_whatever_order(first: str) -> None:
    """`from broker import authorize` is the function, also after its module was imported."""
    code = f"{first}\nfrom broker import authorize\nimport broker\n"
    shown = python(code + "print(type(authorize).__name__, broker.authorize is authorize)")
    assert shown == "function True\n"


def test_import_broker_loads_nothing_heavy() -> None:
    """`import broker` brings in none of the libraries, and nothing costly of the standard one."""
    bare = set(python("import sys; print(*sys.modules)").split())
    loaded = set(python("import broker, sys; print(*sys.modules)").split()) - bare
    assert not loaded & set(HEAVY)
    assert {name for name in loaded if name.startswith("broker.")} == set()


def cost_us(statement: str, module: str) -> int:
    """Return the least time of a few runs that the import system gives for one module."""
    times = []
    for _ in range(5):
        command = [sys.executable, "-X", "importtime", "-c", statement]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stderr
        (line,) = (x for x in lines.splitlines() if x.split("|")[-1].strip() == module)
        times.append(int(line.split("|")[1]))
    return min(times)


def test_import_broker_costs_three_milliseconds_at_most() -> None:
    """`import broker` costs at most 3 ms above a bare interpreter."""
    assert cost_us("import broker", "broker") <= 3_000
