"""Ordinary work goes on within the walls: builds, tests, git, editors, servers."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests import sandboxkit
from tests.sandboxkit import run, start
from tests.sessionkit import Bench

pytestmark = pytest.mark.timeout(180)
SCOPE = ("tools=Bash", "paths=src/**")
NAMED = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b.c "
NAMED += "GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b.c; "


@pytest.fixture(params=sandboxkit.ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """Each engine that this machine has."""
    found = str(request.param)
    sandboxkit.needed(found)
    return found


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A workspace with a little of everything."""
    found = Bench(tmp_path)
    src = found.workspace / "src"
    (src / "test_a.py").write_text("import a\ndef test_a(): assert a.a == 1\n")
    (src / "main.c").write_text('#include <stdio.h>\nint main(void){puts("built");return 0;}\n')
    (src / "Makefile").write_text("main: main.c\n\tcc -o main main.c\n")
    return found


def test_pytest(bench: Bench, engine: str) -> None:
    """Tests run, with their caches and temporary files."""
    ended = run(bench, f"cd src && {sys.executable} -m pytest -q test_a.py", *SCOPE, engine=engine)
    assert (ended.code, "1 passed" in ended.out) == (0, True), ended.out + ended.err


def test_make_and_a_compiler(bench: Bench, engine: str) -> None:
    """A compiler writes its temporary files and its output, and what it built runs."""
    if shutil.which("cc") is None:
        pytest.skip("no compiler is installed")
    ended = run(bench, "make -C src main && src/main", *SCOPE, engine=engine)
    assert (ended.code, ended.out.split()[-1]) == (0, "built"), ended.err


def test_npm_from_a_folder(bench: Bench, engine: str) -> None:
    """A package of the workspace is installed beside another, without a network."""
    if shutil.which("npm") is None:
        pytest.skip("node is not installed")
    for name, needs in (("lib", "{}"), ("app", '{"lib":"file:../lib"}')):
        folder = bench.workspace / "src" / name
        folder.mkdir()
        text = f'{{"name":"{name}","version":"1.0.0","dependencies":{needs}}}'
        (folder / "package.json").write_text(text)
    (bench.workspace / "src/lib/index.js").write_text("module.exports = 'from lib'\n")
    script = "cd src/app && npm install --no-audit --no-fund && node -p 'require(\"lib\")'"
    ended = run(bench, script, *SCOPE, engine=engine)
    assert (ended.code, ended.out.split("\n")[-2]) == (0, "from lib"), ended.err


def test_git_in_a_worktree_and_a_nested_repository(bench: Bench, engine: str) -> None:
    """Where the scope names `.git`, commits are made in a worktree and in a nested repository."""
    ws = bench.workspace
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for command in (
        [*git, "init", "-q", "main"],
        [*git, "-C", "main", "commit", "-q", "--allow-empty", "-m", "a"],
        [*git, "-C", "main", "worktree", "add", "-q", "../tree"],
        [*git, "init", "-q", "main/inner"],
    ):
        subprocess.run(command, cwd=ws, env=env, check=True)
    scope = ("tools=Bash", "paths=main/**,main/.git/**,main/inner/.git/**,tree/**,tree/.git")
    script = NAMED + "for d in tree main/inner main; do echo x > $d/f; git -C $d add f || exit 1; "
    script += "git -C $d commit -qm b || exit 2; git -C $d log --format=%s | head -1; done"
    ended = run(bench, script, *scope, engine=engine, mode="auto")
    assert (ended.code, ended.out.split()) == (0, ["b", "b", "b"]), ended.err


def test_git_may_look_but_not_commit(bench: Bench, engine: str) -> None:
    """Where the scope does not name `.git`, its state is shown and nothing in it is written."""
    subprocess.run(["git", "init", "-q", str(bench.workspace / "src")], check=True)
    script = NAMED + "cd src; git status --short | wc -l; git add a.py; echo $?"
    ended = run(bench, script, *SCOPE, engine=engine)
    assert ended.out.split()[0] == "4"
    assert ended.out.split()[1] != "0"
    assert "kept from being written" in ended.err


def test_an_editor_that_replaces(bench: Bench, engine: str) -> None:
    """A file below a writable tree is replaced by renaming, links and folders are made."""
    script = "cd src; echo new > .a.tmp && mv .a.tmp a.py && sed -i s/new/newer/ a.py && cat a.py; "
    script += "mkdir -p d/e && mv a.py d/e/b.py && ln -s e/b.py d/link && cat d/link && rm -r d"
    ended = run(bench, script, *SCOPE, engine=engine)
    assert ended.out.split() == ["newer", "newer"], ended.err


def test_a_single_file_is_written_in_place(bench: Bench) -> None:
    """A file that the scope names alone is written, and the person is told how."""
    sandboxkit.needed("bubblewrap")
    (bench.workspace / "notes.md").write_text("a\n")
    ended = run(bench, "echo b >> notes.md; cat notes.md", "tools=Bash", "paths=notes.md")
    assert ended.out.split() == ["a", "b"], ended.err
    assert "written in place, not replaced by renaming" in ended.err


def test_a_server_is_shown_by_option(bench: Bench) -> None:
    """A dev server's port is seen on this machine's loopback where the person asked for it."""
    sandboxkit.needed("bubblewrap")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "-d", "src"]
    process = start(bench, command, *SCOPE, ports=[port])
    try:
        until = time.monotonic() + 20
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/a.py", timeout=5) as page:
                    assert page.read() == b"a = 1\n"
                break
            except OSError:
                assert time.monotonic() < until
                time.sleep(0.05)
    finally:
        process.terminate()
        process.communicate(timeout=30)


def test_a_python_server_and_its_client_meet_within(bench: Bench, engine: str) -> None:
    """A program's own server on loopback is reached by its own tests."""
    port = 8_099
    script = f"{sys.executable} -m http.server {port} --bind 127.0.0.1 -d src >/dev/null 2>&1 & "
    script += f"for i in 1 2 3 4 5 6 7 8 9; do sleep 0.2; curl -sf http://127.0.0.1:{port}/a.py "
    script += "&& break; done"
    ended = run(bench, script, *SCOPE, engine=engine)
    assert ended.out == "a = 1\n", ended.err
