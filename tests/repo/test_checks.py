"""Each rule of `checks.py` can fail: here a made-up tree breaks them one at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.repo import checks

HELD = "`tests/unit/test_good.py::test_it_holds`"
PAGE = f"""# 0001. Write things down

Status: accepted      Date: 2026-01-01      Touches: everything

## Question
Shall we?

## Forces
Some.

## Options
Two.

## Decision
Yes.

## Costs
Ink.

## Held by
{HELD}

## Would change our mind
No ink.
"""

GOOD = {
    "LICENSE": "Apache License",
    "CHANGELOG.md": "# Changes\n\n## [1.2.3] - unreleased\n",
    "pyproject.toml": (
        '[project]\nversion = "1.2.3"\n[tool.setuptools]\npackages = ["broker"]\n'
        'package-dir = { "broker.grammar" = "grammar" }\n'
    ),
    "grammar/__init__.py": '"""Data."""\n',
    "ADR/README.md": "| [0001](0001-write.md) | Write things down | accepted |\n",
    "ADR/0001-write.md": PAGE,
    "broker/__init__.py": '"""Nothing."""\n',
    "broker/good.py": (
        '"""Good."""\n\n\nclass BrokerError(Exception):\n    """Base."""\n    code = "broker"\n\n\n'
        'class GoodError(BrokerError):\n    """Good."""\n    code = "good"\n\n\n'
        "try:\n    pass\nexcept BaseException:\n    print()\n    raise\n"
        "x: int = 'a'  # type: ignore[assignment]  # shows that a reason is enough\n"
    ),
    "tests/unit/test_good.py": (
        'def test_it_holds():\n    """One is one."""\n    assert 1 == int("1")\n'
    ),
}

# The rule, the file that breaks it, its text, and a word of the complaint.
BAD = [
    (checks.long_files, "broker/good.py", "\n" * 400, "400 lines"),
    (checks.vague_names, "broker/utils.py", "", "utils"),
    (checks.vague_names, "broker/helpers/good.py", "", "helpers"),
    (checks.unfinished, "broker/good.py", "x = 1  # TOD" + "O: more\n", ":1:"),
    (checks.unfinished, "docs/a.md", "raise NotImplemented" + "Error\n", "docs/a.md:1"),
    (checks.foreign_words, "docs/a.md", "see /wor" + "k/main\n", "docs/a.md:1"),
    (checks.foreign_words, "README.md", "as issue" + " #7 says\n", "README.md:1"),
    (checks.foreign_words, "Makefile", "x:\n\tfetch pyp" + "i.org\n", "Makefile:2"),
    (checks.silenced, "broker/good.py", "x = 1  # type: ign" + "ore\n", "code"),
    (checks.silenced, "tests/a.py", "x = 1  # type: ign" + "ore[arg-type]\n", "reason"),
    (checks.silenced, "broker/good.py", "x = 1  # no" + "qa\n", "code"),
    (checks.broad_excepts, "broker/good.py", "try:\n    1\nexcept:\n    2\n", ":3:"),
    (checks.broad_excepts, "broker/good.py", "try:\n    1\nexcept Exception:\n    2\n", ":3:"),
    (checks.broad_excepts, "broker/a.py", "try:\n 1\nexcept (OSError, Exception):\n 2\n", "a.py"),
    (checks.broad_excepts, "broker/boundary.py", "try:\n 1\nexcept:\n 2\n" * 2, ":7:"),
    (checks.error_codes, "broker/a.py", "class A(BrokerError): ...\n", "no code"),
    (checks.error_codes, "broker/a.py", 'class A(errors.GoodError):\n code = "good"\n', "share"),
    (checks.error_codes, "broker/a.py", 'class A(GoodError):\n code: str = "broker"\n', "share"),
    (checks.class_names, "broker/a.py", "class GoodError: ...\n", "2 classes"),
    (checks.undocumented, "broker/a.py", "x = 1\n", "the module"),
    (checks.undocumented, "broker/a.py", '"A."\ndef f(): ...\n', "f says nothing"),
    (checks.undocumented, "broker/a.py", '"A."\nclass C:\n "C."\n def f(s): ...\n', "f says"),
    (checks.undocumented_tests, "tests/test_a.py", "def test_a(): assert f()\n", "say what"),
    (
        checks.undocumented_tests,
        "tests/test_a.py",
        'def test_a():\n "a"\n assert f()\n',
        "sentence",
    ),
    (checks.idle_tests, "tests/test_a.py", 'def test_a():\n "A."\n assert True\n', "cannot fail"),
    (checks.idle_tests, "tests/test_a.py", 'def test_a():\n "A."\n', "cannot fail"),
    (checks.unpaired, "broker/lonely.py", "x = 1\n", "lonely"),
    (checks.unpaired, "broker/sub/__init__.py", "x = int()\n", "broker/sub/__init__.py"),
    (checks.packaging, "LICENSE", "All rights reserved", "licence"),
    (checks.packaging, "CHANGELOG.md", "## [1.2.4]\n", "top entry"),
    (checks.packaging, "broker/sub/__init__.py", "", "broker.sub"),
    (checks.records, "ADR/0003-late.md", PAGE.replace("0001", "0003"), "0002 is missing"),
    (checks.records, "ADR/0002-new.md", PAGE.replace("0001", "0002"), "not in the index"),
    (checks.records, "ADR/0001-write.md", PAGE.replace("accepted", "fine"), "Status"),
    (checks.records, "ADR/0001-write.md", PAGE.replace("## Costs", "## Cost"), "parts"),
    (checks.records, "ADR/0001-write.md", PAGE.replace("it_holds", "gone"), "does not exist"),
    (checks.records, "ADR/0001-write.md", PAGE.replace("test_good", "test_no"), "does not exist"),
    (checks.records, "ADR/0001-write.md", PAGE.replace(HELD, "Hope"), "nothing is said"),
    (checks.records, "ADR/0001-write.md", PAGE + "\n" * 99, "page"),
    (checks.records, "ADR/README.md", "| [0009](0009-x.md) | X |\n", "0009-x.md does not exist"),
]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small tree that keeps every rule."""
    for name, text in GOOD.items():
        write(tmp_path, name, text)
    return tmp_path


def write(root: Path, name: str, text: str) -> None:
    """Write a file of the made-up tree, and the folders above it."""
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("check", checks.ALL, ids=lambda check: check.__name__)
def test_a_good_tree_keeps_every_rule(check: Callable[[Path], list[str]], tree: Path) -> None:
    """No rule complains about a tree that keeps it."""
    assert check(tree) == []


@pytest.mark.parametrize(("check", "name", "text", "word"), BAD)
def test_a_bad_file_breaks_its_rule(
    check: Callable[[Path], list[str]], name: str, text: str, word: str, tree: Path
) -> None:
    """One bad file is a fault that the rule names."""
    write(tree, name, text)
    assert any(word in fault for fault in check(tree))


def test_every_rule_has_been_broken() -> None:
    """No rule is left without a made-up fault."""
    assert {check for check, *_ in BAD} == set(checks.ALL)
