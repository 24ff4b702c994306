"""
The repository's own rules, each a function from a tree to the list of its faults.

They read files and never import the package, so that they can also be pointed at a made-up tree:
`test_checks.py` shows that each of them can fail.
"""

from __future__ import annotations

import ast
import os
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

MAX_LINES = 400
SKIPPED = {".git", "build", "dist", "__pycache__", "node_modules"}

# A module whose tests stand in a file of another name.
TESTED_ELSEWHERE = {
    "broker/__init__.py": "tests/unit/test_public_api.py",
    "broker/language/inclusion.py": "tests/unit/test_globs.py",
}

# One file that is handed to strangers: it is held to be short, and says what it is in comments.
ALONE = "broker/standalone/verify_receipt.py"

# The one place where whatever breaks may be caught, since its callers answer with a refusal; and
# the hook's client, which imports nothing and so has a copy of that rule.
BROAD_PLACES = {"broker/boundary.py": 1, "broker/hookclient.py": 2}

# Words of somebody's workplace: they mean nothing to a reader of this project. Each pattern is
# spelled so that it does not match itself.
FOREIGN = re.compile(
    r"(?<![\w.])/wor[k]/|/tmp/w[t]\b|/tmp/pla[n]\b|/opt/(?:b[v]|whee[l]s|pyp[i])\b"
    r"|\bissues? #?[0-9]|\bissues sho[w]\b|\bINTERFACE\.m[d]\b|\broom [A-Z]\b"
    r"|pyp[i]\.org|pythonhoste[d]\.org|registry\.npmj[s]|noreply\.[a-z]"
)
UNFINISHED = re.compile(r"\b(?:TOD[O]|FIXM[E]|XX[X])\b|\bNotImplemente[d]Error\b")
IGNORE = re.compile(r"#\s*type:\s*ignor[e]")
IGNORE_WELL = re.compile(r"# type: ignor[e]\[[a-z][a-z, -]*]  # \S.{3,}")
NOQA = re.compile(r"#\s*noq[a]", re.IGNORECASE)
NOQA_WELL = re.compile(r"# noq[a]: [A-Z]+[0-9]+(?:, ?[A-Z]+[0-9]+)*\b")

ADR_STATUS = re.compile(
    r"^Status: (?:proposed|accepted|superseded by [0-9]{4}) +Date: [0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?: +Touches: \S.*)?$"
)
ADR_PARTS = (
    "Question",
    "Forces",
    "Options",
    "Decision",
    "Costs",
    "Held by",
    "Would change our mind",
)
ADR_MAX_LINES = 90


def files(root: Path, *folders: str, ending: str = ".py") -> Iterator[Path]:
    """Yield the files under the folders in order, leaving out what tools have made."""
    for folder in folders:
        for path in sorted((root / folder).rglob(f"*{ending}")):
            parts = path.relative_to(root).parts
            if path.is_file() and not any(p in SKIPPED or p.startswith(".venv") for p in parts):
                yield path


def texts(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every text file of the project."""
    for place, folders, names in os.walk(root):
        # What is left out is not gone into: an environment holds more files than the project.
        folders[:] = sorted(
            f
            for f in folders
            if f in {".ci", ".github"} or not (f.startswith(".") or f in SKIPPED)
            if not f.endswith(".egg-info")
        )
        for path in (Path(place, name) for name in sorted(names) if name != ".git"):
            if path.is_file() and not path.is_symlink():
                text = _text(path, path.stat().st_mtime_ns)
                if text is not None:
                    yield path.relative_to(root).as_posix(), text


def parsed(root: Path, *folders: str) -> Iterator[tuple[str, ast.Module]]:
    """Yield the name and the syntax tree of every Python file under the folders."""
    for path in files(root, *folders):
        yield path.relative_to(root).as_posix(), _tree(path, path.stat().st_mtime_ns)


@cache
def _text(path: Path, _: int) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


@cache
def _tree(path: Path, _: int) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _found(root: Path, pattern: re.Pattern[str]) -> Iterator[tuple[str, int, str, str]]:
    """Yield what a pattern finds: the file, the line's number, the line and the finding."""
    for name, text in texts(root):
        if pattern.search(text):
            for at, line in enumerate(text.splitlines(), 1):
                if found := pattern.search(line):
                    yield name, at, line, found.group()


def long_files(root: Path) -> list[str]:
    """A module is under 400 lines."""
    counted = ((p, len(p.read_text(encoding="utf-8").splitlines())) for p in files(root, "broker"))
    return [
        f"{path.relative_to(root)}: {lines} lines; it is two rooms"
        for path, lines in counted
        if lines >= MAX_LINES
    ]


def vague_names(root: Path) -> list[str]:
    """No module is named for being useful."""
    vague = {"util", "utils", "helpers", "misc", "common"}
    return [
        f"{path.relative_to(root)}: say what it is for"
        for path in files(root, "broker")
        if path.stem in vague or path.parent.name in vague
    ]


def unfinished(root: Path) -> list[str]:
    """Nothing is left for later."""
    return [f"{name}:{at}: {line.strip()[:80]}" for name, at, line, _ in _found(root, UNFINISHED)]


def foreign_words(root: Path) -> list[str]:
    """The project speaks only of itself."""
    return [f"{name}:{at}: `{found}`" for name, at, _, found in _found(root, FOREIGN)]


def silenced(root: Path) -> list[str]:
    """A silenced checker is silenced for one code, and a silenced type error with a reason."""
    wrong = []
    for path in files(root, "broker", "tests", "tools", "bench", "demo"):
        for at, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if IGNORE.search(line) and not IGNORE_WELL.search(line):
                wrong.append(f"{path.relative_to(root)}:{at}: give the code, and then the reason")
            if NOQA.search(line) and not NOQA_WELL.search(line):
                wrong.append(f"{path.relative_to(root)}:{at}: give the code")
    return wrong


def broad_excepts(root: Path) -> list[str]:
    """Only one place catches everything; a handler that raises again catches nothing."""
    wrong = []
    for name, tree in parsed(root, "broker"):
        broad = [
            node.lineno
            for node in ast.walk(tree)
            if isinstance(node, ast.ExceptHandler)
            if _broad(node.type) and not isinstance(node.body[-1], ast.Raise)
        ]
        wrong += [f"{name}:{at}: catches everything" for at in broad[BROAD_PLACES.get(name, 0) :]]
    return wrong


def _broad(kind: ast.expr | None) -> bool:
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(
        k is None or (isinstance(k, ast.Name) and k.id in {"Exception", "BaseException"})
        for k in kinds
    )


def error_codes(root: Path) -> list[str]:
    """Every error class has a code of its own, and no two share one."""
    classes = [
        (name, node)
        for name, tree in parsed(root, "broker")
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    errors = {"BrokerError"}
    grown = True
    while grown:
        found = {n.name for _, n in classes if any(_name(b) in errors for b in n.bases)}
        grown = not found <= errors
        errors |= found

    wrong = []
    seen: dict[str, str] = {}
    for name, node in classes:
        if node.name not in errors:
            continue
        code = _own_code(node)
        if code is None:
            wrong.append(f"{name}: {node.name} has no code of its own")
        elif code in seen:
            wrong.append(f"{name}: {node.name} and {seen[code]} share the code `{code}`")
        else:
            seen[code] = node.name
    return wrong


def _name(base: ast.expr) -> str:
    if isinstance(base, ast.Attribute):
        return base.attr
    return base.id if isinstance(base, ast.Name) else ""


def _own_code(node: ast.ClassDef) -> str | None:
    for part in node.body:
        targets = (
            part.targets
            if isinstance(part, ast.Assign)
            else [part.target]
            if isinstance(part, ast.AnnAssign)
            else []
        )
        value = getattr(part, "value", None)
        if any(_name(t) == "code" for t in targets) and isinstance(value, ast.Constant):
            return str(value.value)
    return None


def class_names(root: Path) -> list[str]:
    """One public class name means one thing in the whole package."""
    counted = Counter(
        node.name
        for _, tree in parsed(root, "broker")
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    return [
        f"{name}: {count} classes bear this name" for name, count in counted.items() if count > 1
    ]


def undocumented_tests(root: Path) -> list[str]:
    """Every test says in one sentence what it proves."""
    wrong = []
    for name, node in _tests(root):
        said = ast.get_docstring(node)
        if not said:
            wrong.append(f"{name}:{node.lineno}: {node.name} does not say what it proves")
        elif not said.endswith((".", "?", "!")) or "\n\n" in said:
            wrong.append(f"{name}:{node.lineno}: {node.name} does not say it in one sentence")
    return wrong


def undocumented(root: Path) -> list[str]:
    """Every module, public class and public function says what it is."""
    wrong = []
    for name, tree in parsed(root, "broker"):
        if tree.body and not ast.get_docstring(tree):
            wrong.append(f"{name}: the module says nothing")
        for node in tree.body if name != ALONE else ():
            inner = node.body if isinstance(node, ast.ClassDef) else []
            wrong += [
                f"{name}:{part.lineno}: {part.name} says nothing"
                for part in [node, *inner]
                if isinstance(part, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                if not part.name.startswith("_") and not ast.get_docstring(part)
                if not any(_name(d) == "overload" for d in part.decorator_list)
                if not (isinstance(node, ast.ClassDef) and node.name.startswith("_"))
            ]
    return wrong


def idle_tests(root: Path) -> list[str]:
    """Every test can fail: it asserts, expects an error or calls something that does."""
    wrong = []
    for name, node in _tests(root):
        body = node.body[1:] if ast.get_docstring(node) else node.body
        inner = [part for statement in body for part in ast.walk(statement)]
        constant = any(
            isinstance(p, ast.Assert) and isinstance(p.test, ast.Constant) and p.test.value
            for p in inner
        )
        if constant or not any(isinstance(p, ast.Assert | ast.Call) for p in inner):
            wrong.append(f"{name}:{node.lineno}: {node.name} cannot fail")
    return wrong


def _tests(root: Path) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for name, tree in parsed(root, "tests"):
        if name.rsplit("/", 1)[-1].startswith("test_"):
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (
                    node.name.startswith("test_")
                ):
                    yield name, node


def unpaired(root: Path, elsewhere: dict[str, str] = TESTED_ELSEWHERE) -> list[str]:
    """Every module has its test file: `broker/a/b.py` has `tests/unit/test_a_b.py` or the like."""
    wrong = []
    for path in files(root, "broker"):
        name = path.relative_to(root).as_posix()
        parts = path.relative_to(root / "broker").with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
            if not any(
                isinstance(node, _CODE) for node in ast.walk(_tree(path, path.stat().st_mtime_ns))
            ):
                continue
        if name in elsewhere:
            places = [elsewhere[name]]
        else:
            places = [
                f"tests/unit/test_{'_'.join(parts)}.py",
                f"tests/unit/{'/'.join([*parts[:-1], f'test_{parts[-1]}'])}.py",
                f"tests/unit/test_{parts[-1]}.py",
                f"tests/{'/'.join([*parts[:-1], f'test_{parts[-1]}'])}.py",
            ]
        if not any((root / place).is_file() for place in places):
            wrong.append(f"{name}: no {places[0]}")
    return wrong


_CODE = (ast.FunctionDef, ast.ClassDef, ast.Call)


def packaging(root: Path) -> list[str]:
    """The licence is there, the version stands on top of the changelog, every package is listed."""
    wrong = []
    licence = root / "LICENSE"
    if not licence.is_file() or "Apache License" not in licence.read_text(encoding="utf-8"):
        wrong.append("LICENSE: the Apache licence is not there")
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    version = settings["project"]["version"]
    changes = root / "CHANGELOG.md"
    top = re.search(r"^## \[([^\]]+)\]", changes.read_text(encoding="utf-8"), re.MULTILINE)
    if top is None or top.group(1) != version:
        wrong.append(f"CHANGELOG.md: the top entry is not {version}")
    listed = set(settings["tool"]["setuptools"]["packages"])
    mapped = settings["tool"]["setuptools"].get("package-dir", {})
    found = {
        ".".join(path.parent.relative_to(root).parts)
        for path in files(root, "broker")
        if path.name == "__init__.py"
    }
    wrong += [f"pyproject.toml: the package {name} is not listed" for name in found - listed]
    for package, folder in mapped.items():
        if not (root / folder / "__init__.py").is_file():
            wrong.append(f"{folder}: without an __init__.py {package} is lost in editable installs")
    return wrong


def records(root: Path) -> list[str]:
    """Decision records are numbered without a gap, indexed, complete and really held by tests."""
    folder = root / "ADR"
    pages = sorted(folder.glob("[0-9]*.md"))
    index = (folder / "README.md").read_text(encoding="utf-8")
    wrong = []
    for number, page in enumerate(pages, 1):
        text = page.read_text(encoding="utf-8")
        lines = text.splitlines()
        if not page.name.startswith(f"{number:04}-"):
            wrong.append(f"{page.name}: number {number:04} is missing before it")
        title = re.match(r"# ([0-9]{4})\. (.+[^.])$", lines[0])
        if title is None or title.group(1) != page.name[:4]:
            wrong.append(f"{page.name}: the title is not `# {page.name[:4]}. …`")
        elif f"[{title.group(1)}]({page.name}) | {title.group(2)} |" not in index:
            wrong.append(f"{page.name}: not in the index by its title")
        if not any(ADR_STATUS.match(line) for line in lines):
            wrong.append(f"{page.name}: no line `Status: …  Date: …`")
        parts = tuple(line[3:] for line in lines if line.startswith("## "))
        if parts != ADR_PARTS:
            wrong.append(f"{page.name}: its parts are {', '.join(parts)}")
        if len(lines) > ADR_MAX_LINES:
            wrong.append(f"{page.name}: longer than a page")
        wrong += [f"{page.name}: {fault}" for fault in _not_held(root, text)]
    for named in re.findall(r"\(([0-9]{4}-[^)]+)\)", index):
        if not (folder / named).is_file():
            wrong.append(f"README.md: {named} does not exist")
    return wrong


def _not_held(root: Path, text: str) -> list[str]:
    part = re.search(r"^## Held by\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    names = re.findall(r"[\w./-]+/[\w./-]*\w(?:::\w+)*", part.group(1)) if part else []
    if not names:
        return ["nothing is said to hold it"]
    wrong = []
    for name in names:
        place, _, test = name.partition("::")
        path = root / place
        if not path.exists():
            wrong.append(f"held by `{place}`, which does not exist")
        elif test and not re.search(
            rf"^ *(?:async )?(?:def|class) {re.escape(test.split('::')[-1])}\b",
            path.read_text(encoding="utf-8"),
            re.MULTILINE,
        ):
            wrong.append(f"held by `{name}`, which does not exist")
    return wrong


ALL = (
    long_files,
    vague_names,
    unfinished,
    foreign_words,
    silenced,
    broad_excepts,
    error_codes,
    class_names,
    undocumented,
    undocumented_tests,
    idle_tests,
    unpaired,
    packaging,
    records,
)
