"""
A repository for the folder that stands in for a workspace.

A snapshot holds no `.git`. An agent that was recorded in a repository tells its model of it in the
first request (its branch, what changed, the last commits), and would tell otherwise in a folder
without one.

Decided here: what of the person's repository the copy gets: the recorded commit, with some that led
to it, on the recorded branch, and an index as of that commit. Nothing else is taken: no setting, no
hook, no remote and no other branch. Not decided here: the files (``broker.capture.restoring``).

Rules a maintainer keeps: the person's repository is read and never written; no object is shared
with it, since a replayed agent may do what it likes to the copy; what cannot be had is said.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import Final

from broker.capture.treestore import command, environ, git_program
from broker.capture.withheld import withheld

COMMITS: Final = 50  # that are taken along
PATIENCE_S: Final = 120.0
_GIVING: Final = ("-c", "uploadpack.allowAnySHA1InWant=true", "-c", "core.hooksPath=/dev/null")

NONE: Final = "the repository of the workspace is not there any more: the copy has an empty one"


def repository(workspace: Path, head: str, branch: str, copy: Path) -> str:
    """
    Make a repository in a copy of a workspace, and return what could not be had, or nothing.

    Args:
        workspace: the folder that was recorded; its repository is read if it is there still.
        head: the commit that it stood at; empty where there was none yet.
        branch: its branch; empty where it was on none.
        copy: the folder that stands in for it.
    """
    git = git_program()
    if git is None:
        return "there is no `git`: the copy has no repository"
    made = _Made(git, copy / ".git")
    if not made.does("init", "--quiet", f"--initial-branch={branch or 'main'}"):
        return "`git init` fails: the copy has no repository"
    if not head:
        return ""
    giving = shlex.join([git, *_GIVING, "upload-pack"])
    source = workspace.absolute().as_uri()
    fetch = ("fetch", "--quiet", "--no-tags", f"--depth={COMMITS}", f"--upload-pack={giving}")
    if not made.does(*fetch, source, head):
        return NONE
    at = ("update-ref", f"refs/heads/{branch}") if branch else ("update-ref", "--no-deref", "HEAD")
    if not (made.does(*at, head) and made.does("read-tree", head)):
        return NONE
    # What a snapshot leaves out for its name is missing here, and was not then.
    missing = made.lines("ls-files", "-z", "--deleted")
    kept_back = [name for name in missing if withheld(os.fsdecode(name))]
    if kept_back:
        made.does("update-index", "-z", "--skip-worktree", "--stdin", given=b"\0".join(kept_back))
    (copy / ".git/FETCH_HEAD").unlink(missing_ok=True)
    return ""


class _Made:
    """The repository that is made, and how git is asked about it."""

    def __init__(self, git: str, folder: Path) -> None:
        self._git, self._folder = git, folder

    def does(self, *words: str, given: bytes = b"") -> bool:
        return self._ran(words, given).returncode == 0

    def lines(self, *words: str) -> list[bytes]:
        return [line for line in self._ran(words, b"").stdout.split(b"\0") if line]

    def _ran(self, words: tuple[str, ...], given: bytes) -> subprocess.CompletedProcess[bytes]:
        tree = ("-c", "safe.directory=*", f"--work-tree={self._folder.parent}")
        line = command(self._git, self._folder, *words, settings=tree)
        try:
            return subprocess.run(
                line,
                env=environ(os.fspath(self._folder.parent)),
                cwd=self._folder.parent,
                input=given,
                capture_output=True,
                timeout=PATIENCE_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return subprocess.CompletedProcess(line, 1, b"", b"")
