"""
What the harness may reach, and every way around it that its own text shows.

Nothing under `broker/harness/` touches the world but through the capabilities that it is given, so
that a run on fakes is the same run. This is held by an allow-list: a module imports only what is
named here, and says nothing that could reach more by another road.

It reads the text, so it finds what an honest author does by mistake and the known roads of one who
is in a hurry: aliases, imports by name, modules reached through modules, objects' insides. It is
no sandbox for code that means harm.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

ALL = frozenset({"*"})

# The standard library: whole modules that compute, and of others the names that do.
LIBRARY: Mapping[str, frozenset[str]] = {
    "__future__": ALL,
    "collections": ALL,
    "collections.abc": ALL,
    "dataclasses": ALL,
    "enum": ALL,
    "errno": ALL,
    "functools": ALL,
    "itertools": ALL,
    "re": ALL,
    "types": ALL,
    "typing": ALL,
    "argparse": frozenset({"ArgumentParser", "Namespace"}),
    "concurrent.futures": frozenset({"Future"}),
    "contextlib": frozenset({"AbstractContextManager", "contextmanager", "suppress"}),
    "contextvars": frozenset({"copy_context"}),
    "hashlib": frozenset({"sha256"}),
    "json": frozenset({"dumps", "loads"}),
    "posixpath": frozenset({"basename", "dirname", "isabs", "join", "normpath", "split"}),
    "queue": frozenset({"SimpleQueue"}),
    "textwrap": frozenset({"wrap"}),
    "threading": frozenset({"Lock", "RLock", "Thread"}),
    "tomllib": frozenset({"loads"}),
    "jsonschema_rs": frozenset({"ValidationError", "Validator", "validator_for"}),
}

# The broker. The core computes; the rest is what a run stands on: the session with its receipt,
# what is known of tools, and what the capabilities look like. Not how the real ones are made.
CAPABILITIES: Mapping[str, frozenset[str]] = {
    "bundle": frozenset({"Capabilities"}),
    "browser": frozenset({"Browser"}),
    "clock": frozenset({"Clock", "NS_PER_S"}),
    "credentials": frozenset({"Credentials", "Secret"}),
    "fs": frozenset({"FileStatus", "FileSystem", "Folder"}),
    "process": frozenset({"Command", "Finished", "Processes"}),
    "terminal": frozenset({"Size", "Terminal"}),
    "transcription": frozenset({"Transcription"}),
    "web": frozenset({"WebPage"}),
}
BROKER: Mapping[str, frozenset[str]] = {
    **{f"broker.capabilities.{name}": names for name, names in CAPABILITIES.items()},
    "broker.authorize": ALL,
    "broker.boundary": ALL,
    "broker.calls": ALL,
    "broker.errors": ALL,
    "broker.globs": ALL,
    "broker.limits": ALL,
    "broker.permissions.": ALL,
    "broker.harness.": ALL,
    "broker.resolve": frozenset({"Resolver", "canonical_digest"}),
    "broker.service.client": frozenset({"SOCKET_VARIABLE", "SessionClient"}),
    "broker.session": frozenset({"Session"}),
}
# Rooms whose modules import more than they make, which is not theirs to hand on.
HANDED_ON = ("broker.harness.", "broker.permissions.")
# Where a run is put together, and nowhere else.
COMPOSED: Mapping[str, frozenset[str]] = {
    "broker.capabilities.bundle": frozenset({"Capabilities", "real_capabilities"}),
    "broker.catalogs": frozenset({"Catalogs", "load_catalogs"}),
    "broker.config": frozenset({"Config", "load_config"}),
    "broker.home": frozenset({"Home"}),
    "broker.intent": frozenset({"TypedLine"}),
    "broker.records.audits": frozenset({"ToolAudits"}),
    "broker.records.store": frozenset({"RecordStore"}),
}
COMPOSITION = frozenset({"__main__.py", "composition.py"})

# What the reference agent with a real model may name besides: what a conversation is recorded by,
# and the sessions that follow one another.
AGENT_LOOP: Mapping[str, frozenset[str]] = {
    "broker.agentloop.": ALL,
    "broker.config": frozenset({"Config", "ModelSetting"}),
    "broker.intent": frozenset({"TypedLine"}),
    "broker.language.urls": frozenset({"read_url"}),
    "broker.receipt.entry": frozenset({"Entry"}),
    "broker.records.": ALL,
    "broker.scope": frozenset({"render"}),
    "broker.sessions.custody": frozenset({"FIRST"}),
    "broker.sessions.following": frozenset({"Earlier"}),
    "broker.sessions.ground": frozenset({"Outside"}),
    "broker.sessions.typedscope": frozenset({"typed_scope"}),
    "broker.ticket": frozenset({"Ticket", "describe"}),
}
# Its modules that reach the world by libraries of others, and the one that puts all together: they
# are read by people, and hand on what they made.
EDGES = frozenset({"clients.py", "servers.py", "starting.py"})

# Names that are there without an import, and reach further than a computation.
BUILTINS = frozenset(
    """
    open input print exec eval compile __import__ breakpoint globals locals vars id hash exit quit
    help copyright credits license __builtins__ __loader__ __spec__ __file__ __package__
    """.split()  # noqa: SIM905 - a list of words reads better than a page of quotes
)
REFLECTION = frozenset({"getattr", "setattr", "delattr", "hasattr"})
INSIDES = frozenset({"__name__", "__doc__", "__init__", "__post_init__"})  # may be named
# Insides that are spelled like anything else: what runs, with its names.
FRAMES = re.compile(r"(?:gi|cr|ag|tb)_(?:frame|code|next)|f_(?:back|builtins|globals|locals|code)")
# Of modules that compute, what evaluates a text.
EVALUATES = frozenset({"ForwardRef", "get_type_hints", "CodeType", "FunctionType"})


def reaches(
    root: Path,
    folder: str = "broker/harness",
    more: Mapping[str, frozenset[str]] | None = None,
    without: frozenset[str] = frozenset(),
) -> list[str]:
    """
    Return every place where a module of the folder reaches further than it may.

    ``more`` is what its modules may name besides, ``without`` the files that are not held to it.
    """
    wrong: list[str] = []
    for path in sorted((root / folder).rglob("*.py")):
        if path.name in without:
            continue
        name = path.relative_to(root).as_posix()
        package = ".".join(path.relative_to(root).parent.parts)
        reader = _Reader(package, composes=path.name in COMPOSITION, more=more or {})
        reader.read(ast.parse(path.read_text(encoding="utf-8")))
        wrong += [f"{name}:{line}: {fault}" for line, fault in reader.faults]
    return wrong


class _Reader(ast.NodeVisitor):
    def __init__(self, package: str, *, composes: bool, more: Mapping[str, frozenset[str]]) -> None:
        self.package = package
        self.allowed = {**LIBRARY, **BROKER, **(COMPOSED if composes else {}), **more}
        self.modules: dict[str, str] = {}  # what a name stands for, when it stands for a module
        self.faults: list[tuple[int, str]] = []

    def fault(self, node: ast.AST, what: str) -> None:
        self.faults.append((getattr(node, "lineno", 0), what))

    def names_of(self, module: str) -> frozenset[str] | None:
        if module in self.allowed:
            return self.allowed[module]
        for prefix, names in self.allowed.items():
            if prefix.endswith(".") and module.startswith(prefix):
                return names
        return None

    def read(self, tree: ast.AST) -> None:
        """Find the modules first: a name may stand before its import, inside a function."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self.modules |= {a.asname or a.name: a.name for a in node.names}
        self.visit(tree)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name.startswith("broker"):
                self.fault(node, f"import the names you need from `{alias.name}`")
            elif self.names_of(alias.name) is None:
                self.fault(node, f"`{alias.name}` is not among what the harness may import")
            elif not alias.asname and "." in alias.name:
                self.fault(node, f"import the names you need from `{alias.name}`")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        above = self.package.split(".")
        above = above[: len(above) - node.level + 1] if node.level else []
        module = ".".join([*above, *([node.module] if node.module else [])])
        names = self.names_of(module)
        for alias in node.names:
            whole = f"{module}.{alias.name}"
            if names is None or alias.name == "*" or (names != ALL and alias.name not in names):
                self.fault(node, f"`{whole}` is not among what the harness may import")
            elif _is_module(module, alias.name):
                self.fault(node, f"`{whole}` is a module, and may be any")
            elif self.inside(alias.name):
                self.fault(node, f"`{whole}` opens the inside of a module")
            elif module.startswith(HANDED_ON) and not self.may_be_had(module, alias.name):
                self.fault(node, f"`{whole}` is another module's, which the harness may not import")

    def inside(self, name: str) -> bool:
        dunder = name.startswith("__") and name.endswith("__") and name not in INSIDES
        return dunder or FRAMES.fullmatch(name) is not None or name in EVALUATES

    def may_be_had(self, module: str, name: str) -> bool:
        """Whether a name that one of our modules hands on may be imported where it is made."""
        found = getattr(_ours(module), name, None)
        home = getattr(found, "__module__", None)
        if not isinstance(home, str) or home in (module, "builtins"):
            return True
        names = self.names_of(home)
        return names is not None and (names == ALL or getattr(found, "__name__", name) in names)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        attribute = node.attr
        if self.inside(attribute):
            self.fault(node, f"`{attribute}` opens the inside of an object")
        if isinstance(node.value, ast.Name) and node.value.id in self.modules:
            module = self.modules[node.value.id]
            names = self.names_of(module) or frozenset()
            if names != ALL and attribute not in names:
                self.fault(node, f"`{module}.{attribute}` is not among what the harness may use")
            elif _is_module(module, attribute):
                self.fault(node, f"`{module}.{attribute}` is a module, and may be any")
            return  # the name in front of the dot was looked at
        self.generic_visit(node)

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        for name in node.kwd_attrs:
            if self.inside(name):
                self.fault(node, f"`{name}` opens the inside of an object")
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in BUILTINS:
            self.fault(node, f"`{node.id}` reaches the world, or differs from run to run")
        elif node.id in self.modules:
            self.fault(node, f"the module `{self.modules[node.id]}` is handed on")
        elif node.id in REFLECTION:
            self.fault(node, f"`{node.id}` reaches what is not spelled out")

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in REFLECTION:
            named = node.args[1] if len(node.args) > 1 else None
            plain = isinstance(named, ast.Constant) and isinstance(named.value, str)
            if plain and not str(named.value).startswith("__"):  # type: ignore[union-attr]  # as just asked
                for part in [*node.args, *node.keywords]:
                    self.visit(part)
                return
        self.generic_visit(node)


def _is_module(module: str, name: str) -> bool:
    """Whether a name of a module of the library stands for a module, such as `contextlib.os`."""
    of = _ours(module) if module.startswith("broker") else importlib.import_module(module)
    return isinstance(getattr(of, name, None), ModuleType) and f"{module}.{name}" not in LIBRARY


def _ours(module: str) -> ModuleType | None:
    """Return a module of the broker, whose names may be what it imported itself; None for none."""
    there = module.startswith("broker.") and importlib.util.find_spec(module) is not None
    return importlib.import_module(module) if there else None
