"""
Runs the fenced blocks of a page, so that what the documentation shows is what happens.

- A ``console`` block holds ``$ command`` lines, each followed by what it prints; a line that
  starts with ``> `` right after a command goes on with it. The block is one bash session, in a
  home and a workspace that all blocks of the page share. A command with no output shown must
  succeed; one with output may fail, and ``$ echo $?`` shows how.
- A ``python`` block is a session (``>>>``) or a program; the names of a page are shared.
- ``…`` stands for anything within a line, and alone on a line for any number of lines.
- ``<!-- norun: why -->`` above a block leaves it out. Other languages are not run; shell
  blocks must be ``console``, so that none escapes.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

TIMEOUT_S = 60
SHELLS = {"sh", "bash", "shell", "shell-session", "zsh"}
FENCE = re.compile(r"^( *)(`{3,}|~{3,}) *([\w+-]*)[^`]*$")
NORUN = re.compile(r"^ *<!-- *norun *(?:: *(.*?))? *-->$")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block; ``line`` is that of its first line of text, from 1."""

    language: str
    text: str
    line: int
    norun: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a console block, and what the page says it prints."""

    command: str
    expected: str
    line: int


def read_blocks(page: str) -> list[Block]:
    """Return the fenced blocks of a page, each with the reason it is not to be run, if any."""
    blocks = []
    norun: str | None = None
    lines = iter(enumerate(page.splitlines(), 1))
    for at, line in lines:
        if said := NORUN.match(line):
            norun = said.group(1) or ""
        elif opened := FENCE.match(line):
            margin, fence, language = opened.groups()
            inner = []
            for _, text in lines:
                if re.fullmatch(rf" *{re.escape(fence[0])}{{{len(fence)},}} *", text):
                    break
                inner.append(text.removeprefix(margin))
            blocks.append(Block(language, "\n".join(inner) + "\n", at + 1, norun))
            norun = None
        elif line.strip():
            norun = None
    return blocks


def matches(expected: str, shown: str) -> bool:
    """Whether an output is the expected one, with ``…`` as the wildcard."""
    pattern = ""
    for line in expected.rstrip().splitlines():
        if line.strip() == "…":
            pattern += r"(?:[^\n]*\n)*"
        else:
            parts = (re.escape(part) for part in line.rstrip().split("…"))
            pattern += r"[^\n]*".join(parts) + r"\n"
    tidied = "".join(line.rstrip() + "\n" for line in shown.rstrip().splitlines())
    return re.fullmatch(pattern, tidied) is not None


def read_steps(block: Block) -> list[Step]:
    """Return the commands of a console block with what each is to print."""
    steps: list[Step] = []
    typing = False
    for at, line in enumerate(block.text.splitlines(), block.line):
        if line == "$" or line.startswith("$ "):
            steps.append(Step(line[2:], "", at))
            typing = True
        elif typing and (line == ">" or line.startswith("> ")):
            last = steps.pop()
            steps.append(Step(f"{last.command}\n{line[2:]}", "", last.line))
        elif steps:
            last = steps.pop()
            steps.append(Step(last.command, last.expected + line + "\n", last.line))
            typing = False
        elif line.strip():
            raise ValueError(f"line {at}: a console block starts with `$ command`")
    return steps


def run_console(block: Block, workspace: Path, environ: dict[str, str]) -> list[str]:
    """Run a console block in one bash session and return what differs from the page."""
    try:
        steps = read_steps(block)
    except ValueError as error:
        return [str(error)]
    token = f"==={secrets.token_hex(8)}"
    script = "status=0\n" + "".join(
        f"(exit $status); eval {shlex.quote(step.command)}\n"
        f"status=$?; printf '\\n{token} %d\\n' $status\n"
        for step in steps
    )
    shown, ended = _bash(script, workspace, environ)
    parts = re.split(rf"\n{token} ([0-9]+)\n", shown)
    outputs, codes = parts[0::2], [int(code) for code in parts[1::2]]
    faults = []
    for step, output, code in zip(steps, outputs, codes, strict=False):
        if not matches(step.expected, output):
            faults.append(
                f"line {step.line}: $ {step.command}\n"
                f"the page says:\n{step.expected}it printed:\n{output}"
            )
        elif code and not step.expected.strip():
            faults.append(f"line {step.line}: $ {step.command}\nit failed with {code}, in silence")
    if len(codes) < len(steps):
        step = steps[len(codes)]
        faults.append(f"line {step.line}: $ {step.command}\n{ended}:\n{outputs[-1]}")
    return faults


def _bash(script: str, workspace: Path, environ: dict[str, str]) -> tuple[str, str]:
    """Run a script and return its output, and how it ended if it ended too early."""
    with subprocess.Popen(
        ["bash", "--noprofile", "--norc", "-c", script],
        cwd=workspace,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            shown, _ = process.communicate(timeout=TIMEOUT_S)
            ended = "the shell ended here"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            shown, _ = process.communicate()
            ended = f"no end after {TIMEOUT_S} s"
    return shown.decode("utf-8", "replace"), ended


class _Checker(doctest.OutputChecker):
    """Compares as doctest does, and with the wildcard of console blocks."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(want, got, optionflags) or matches(want, got)


def run_python(block: Block, names: dict[str, object], page: str) -> list[str]:
    """Run a python block among the page's names and return what differs from the page."""
    shown = io.StringIO()
    if re.search(r"^ *>>> ", block.text, re.MULTILINE):
        test = doctest.DocTestParser().get_doctest(block.text, names, page, page, block.line - 1)
        runner = doctest.DocTestRunner(_Checker(), verbose=False, optionflags=doctest.ELLIPSIS)
        runner.run(test, out=shown.write, clear_globs=False)
        names.update(test.globs)
        return [f"line {block.line}: {shown.getvalue()}"] if runner.failures else []
    try:
        with contextlib.redirect_stdout(shown):
            exec(compile("\n" * (block.line - 1) + block.text, page, "exec"), names)
    except (Exception, SystemExit):  # noqa: BLE001 - a page's program may raise anything
        return [f"line {block.line}: {traceback.format_exc(limit=-1)}"]
    return []


def run_page(page: Path, workspace: Path, home: Path) -> list[str]:
    """Run all blocks of a page in their order and return every difference."""
    environ = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(home / "run"),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "COLUMNS": "100",
    }
    (home / "run").mkdir(mode=0o700, exist_ok=True)
    names: dict[str, object] = {"__name__": "__page__"}
    faults = []
    for block in read_blocks(page.read_text(encoding="utf-8")):
        if block.norun is not None:
            if not block.norun:
                faults.append(f"line {block.line}: say why it is not run: `<!-- norun: why -->`")
        elif block.language in SHELLS:
            faults.append(
                f"line {block.line}: a `{block.language}` block is not run: use `console`"
            )
        elif block.language == "console":
            faults += run_console(block, workspace, environ)
        elif block.language == "python":
            with mock.patch.dict(os.environ, environ, clear=True), contextlib.chdir(workspace):
                faults += run_python(block, names, page.name)
    return faults
