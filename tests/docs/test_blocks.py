"""The runner of documentation blocks notices what it must."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.docs import blocks
from tests.docs.blocks import Block, matches, read_blocks, read_steps, run_page

GOOD = """\
# A page

```console
$ echo 'one
> two' > both; cat both
one
two
$ mkdir folder
$ cd folder && pwd
/…/folder
$ sh -c 'echo no; exit 3'
no
$ echo $?
3
```

Later:

- a list
  ```console
  $ cat both; date; echo end
  one
  …
  end
  $ command -v python && echo $HOME
  …/python
  …
  ```

```python
>>> x = 6
>>> x * 7, object()
(42, <object object at …>)
```

```python
from pathlib import Path
assert x == 6
assert Path("both").exists()
Path("made").write_text("by a program")
```

```console
$ cat made
by a program
```

<!-- norun: there is no such program -->
```console
$ frobnicate
```

```toml
[x]
```
"""

# A page that lies, and a word of what the runner says about it.
BAD = [
    ("```console\n$ echo a\nb\n```", "line 2: $ echo a\nthe page says:\nb\nit printed:\na\n"),
    ("```console\n$ echo a\n```", "it printed:\na"),
    ("```console\n$ true\nb\n```", "the page says:\nb"),
    ("```console\n$ false\n```", "it failed with 1, in silence"),
    ("```console\n$ exit 0\n$ echo a\na\n```", "line 2: $ exit 0\nthe shell ended here"),
    ("```console\n$ sleep 60\n```", "no end after"),
    ("```console\necho a\n```", "line 2: a console block starts with `$ command`"),
    ("```bash\necho a\n```", "use `console`"),
    ("<!-- norun -->\n```console\n$ echo\n```", "say why"),
    ("<!-- norun: old -->\ntext\n```console\n$ false\n```", "it failed"),
    ("```python\n>>> 1 + 1\n3\n```", "Expected:\n    3\nGot:\n    2"),
    ("```python\n\n1 / 0\n```", "line 3"),
    ("```python\nraise SystemExit\n```", "SystemExit"),
]


needs_bash = pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """An empty workspace and an empty home."""
    workspace, home = tmp_path / "workspace", tmp_path / "home"
    workspace.mkdir()
    home.mkdir()
    return workspace, home


@needs_bash
def test_a_true_page_has_no_fault(tmp_path: Path, places: tuple[Path, Path]) -> None:
    """Blocks share a workspace, wildcards match, and what is marked is left out."""
    page = tmp_path / "page.md"
    page.write_text(GOOD, encoding="utf-8")
    assert run_page(page, *places) == []
    assert (places[0] / "made").read_text(encoding="utf-8") == "by a program"


@needs_bash
@pytest.mark.parametrize(("text", "word"), BAD)
def test_a_lying_page_is_found(
    text: str,
    word: str,
    tmp_path: Path,
    places: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever a page shows and does not happen is a fault that names the line."""
    monkeypatch.setattr(blocks, "TIMEOUT_S", 1)
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    (fault,) = run_page(page, *places)
    assert word in fault


@pytest.mark.parametrize(
    ("expected", "shown", "same"),
    [
        ("", "", True),
        ("", "\n", True),
        ("a", "a  \n", True),
        ("a\n\nb", "a\n\nb\n", True),
        ("a", "", False),
        ("", "a", False),
        ("a…c", "abbc", True),
        ("a…c", "ac", True),
        ("a…c", "ab\nbc", False),
        ("a.c", "abc", False),
        ("…", "", True),
        ("…", "a\nb", True),
        ("a\n…\nb", "a\nb", True),
        ("a\n…\nb", "a\n1\n2\nb", True),
        ("a\n…\nb", "a\n1\n2", False),
    ],
)
def test_the_wildcard(expected: str, shown: str, same: bool) -> None:
    """`…` matches within a line, or any number of whole lines, and nothing else does."""
    assert matches(expected, shown) is same


def test_blocks_are_read_with_their_lines() -> None:
    """Fences of either kind and any length are read, with the line of their text."""
    page = "~~~~ text\n```\ninner\n```\n~~~~\n\n  ```python title\n  x\n    y\n  ```\n"
    assert read_blocks(page) == [
        Block("text", "```\ninner\n```\n", 2),
        Block("python", "x\n  y\n", 8),
    ]


def test_steps_are_read_with_their_lines() -> None:
    """A command goes on over `> ` lines only directly below it."""
    block = Block("console", "$ a \\\n> b\nout\n> out\n$ c\n", 10)
    read = [(step.command, step.expected, step.line) for step in read_steps(block)]
    assert read == [("a \\\nb", "out\n> out\n", 10), ("c", "", 14)]
