"""
Where the demo plays: a small project with a real bug, a home of the broker's own, and a voice.

Everything lies in one temporary folder, which is removed at the end whatever happens.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

TIMEOUT_S = 50

PROJECT = {
    "README.md": "# slug\n\nTurns a title into the last part of a link.\n",
    "src/__init__.py": "",
    "src/slug.py": '''"""Turns a title into the last part of a link."""


def slug(title: str) -> str:
    """Return the words of a title in lower case, joined by dashes."""
    words = title.lower().split()
    return "".join(words)
''',
    "tests/__init__.py": "",
    "tests/test_slug.py": """import unittest

from src.slug import slug


class SlugTest(unittest.TestCase):
    def test_words_are_joined_by_dashes(self):
        self.assertEqual(slug("A Good Title"), "a-good-title")
""",
    ".github/workflows/ci.yml": "on: push\njobs: {test: python -m unittest}\n",
}


@dataclass(slots=True)
class Stage:
    """The demo's folders and voice; ``faults`` holds what did not come out as it should."""

    project: Path
    environ: dict[str, str]
    faults: list[str] = field(default_factory=list)
    _steps: int = 0

    def step(self, title: str, *lines: str) -> None:
        """Begin a step: its title, and a few lines of what to look at."""
        self._steps += 1
        print(f"\n── {self._steps}. {title} " + "─" * max(4, 74 - len(title)))
        for line in lines:
            print(line)
        print()

    def tell(self, line: str) -> None:
        """Say one line."""
        print(line)

    def run(self, words: Sequence[str], *, show: bool = True) -> tuple[int, str]:
        """Run a command in the project as a person would; return exit code and output."""
        if show:
            print(f"$ {shown(words)}")
        try:
            ended = subprocess.run(
                words,
                cwd=self.project,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            self.expect(False, f"`{words[0]}` ends within {TIMEOUT_S} s")
            return 124, ""
        text = ended.stdout.decode("utf-8", "replace")
        if show:
            print("".join(f"  {line}\n" for line in text.splitlines()), end="")
        return ended.returncode, text

    def expect(self, held: bool, what: str) -> None:
        """Note whether what should be so is so; say it when it is not."""
        if not held:
            self.faults.append(what)
            print(f"  !! NOT SO: {what}")


@contextmanager
def stage() -> Iterator[Stage]:
    """Set the stage up, and take it down again."""
    with tempfile.TemporaryDirectory(prefix="broker-demo-") as folder:
        project = Path(folder).resolve() / "slug"
        for name, text in PROJECT.items():
            path = project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        yield Stage(project, environment(Path(folder).resolve()))


def environment(folder: Path) -> dict[str, str]:
    """Return a small environment: this Python first, a home and a broker of its own."""
    home = folder / "home"
    home.mkdir()
    kept = {n: os.environ[n] for n in ("LANG", "LC_ALL", "TMPDIR") if n in os.environ}
    return {
        **kept,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "HOME": str(home),
        "BROKER_HOME": str(folder / "broker"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUTF8": "1",
        "NO_COLOR": "1",
    }


def shown(words: Sequence[str]) -> str:
    """
    Return a command as it is typed, a long one over several lines.

    >>> print(shown(["broker", "run", "--scope", "tools=read", "--", "echo", "x" * 60]))
    broker run \\
        --scope tools=read \\
        -- echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
    """
    line = shlex.join(words)
    if len(line) <= 80:
        return line
    parts = [""]
    command = False  # behind `--` the words are the agent's own
    for word in words:
        if not command and word in ("--scope", "--intent", "--"):
            parts.append("")
        command = command or word == "--"
        parts[-1] += f" {shlex.quote(word)}"
    return " \\\n    ".join(part.strip() for part in parts)
