"""
A branch of a git remote: every checkpoint is a commit, and nobody here can take one back.

Decided here: what is committed where, and what a remote that holds it shows. Not decided here:
who may rewrite the remote's branch. Protect it against forced pushes; then it keeps what was
pushed even from who owns this machine.

    <branch>:<16 hex of the origin's SHA-256>    the newest checkpoint of one log, as it is signed

Rules a maintainer keeps: nothing is ever forced; no hook, no editor and no question of git's
runs; the work is done in a bare repository of our own, so no working copy of the user's is
touched; evidence counts only when the remote itself still holds it.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from broker.anchors.anchor import AnchorError, Attested, Consistency
from broker.errors import Break
from broker.receipt.checkpoint import Checkpoint

TIMEOUT_S: Final = 30.0
TRIES: Final = 3  # others push to the same branch
_COMMIT: Final = re.compile(rb"[0-9a-f]{40,64}\n?")
_WHO: Final = "capability-broker"


@dataclass(frozen=True, slots=True)
class GitRemote:
    """
    A git remote that is an anchor.

    Args:
        name: what its owner calls it.
        remote: its address, as git takes it.
        branch: the branch that holds checkpoints, and nothing else.
        folder: where our own bare repository lies.
    """

    name: str
    remote: str
    branch: str
    folder: Path
    every_origin: bool = True

    def submit(self, note: bytes, consistency: Consistency) -> bytes:
        """Push a commit with the note; see ``Anchor``."""
        origin = _origin(note)
        for _ in range(TRIES):
            parent = self._fetch()
            held = self._held(parent, origin)
            if held == note and parent is not None:
                return f"{parent}\n".encode()
            self._check_growth(held, note, consistency)
            commit = self._commit(parent, origin, note)
            pushed = self._git("push", "--quiet", self.remote, f"{commit}:{self._ref}", check=False)
            if pushed is not None:
                return f"{commit}\n".encode()
        raise AnchorError(f"`{self.name}`: the remote `{self.remote}` did not take the checkpoint")

    def check(self, note: bytes, evidence: bytes, now: int) -> Attested:
        """Ask the remote whether it holds the commit, and the commit whether it holds the note."""
        if not _COMMIT.fullmatch(evidence):
            raise Break("anchor", f"the evidence of `{self.name}` names no commit")
        commit = evidence.decode().strip()
        tip = self._fetch()
        if tip is None or not self._leads_to(commit, tip):
            raise Break("anchor", f"the branch of `{self.name}` does not hold commit {commit[:12]}")
        if self._held(commit, _origin(note)) != note:
            raise Break("anchor", f"commit {commit[:12]} of `{self.name}` holds another checkpoint")
        return Attested(self.name)  # a commit's own time is what its author says

    def newest(self, origin: str) -> bytes | None:
        """Return the newest note of a log on the branch; see ``Anchor``."""
        return self._held(self._fetch(), origin)

    # ── inside ──

    @property
    def _ref(self) -> str:
        return f"refs/heads/{self.branch}"

    def _check_growth(self, held: bytes | None, note: bytes, consistency: Consistency) -> None:
        """See that what the remote holds is the beginning of what is handed in."""
        if held is None:
            return
        from broker.receipt.paths import check_consistency  # noqa: PLC0415  only needed here

        old, new = (Checkpoint.parse(_text(each)) for each in (held, note))
        if old.size > new.size:
            raise Break("anchor", f"`{self.name}` has {old.size} lines and {new.size} are left")
        if old.size:
            path = consistency(old.size)
            try:
                check_consistency(old.size, new.size, old.root, new.root, path)
            except Break as error:
                raise Break(
                    "anchor", f"`{self.name}` holds another log of this name: a fork"
                ) from error

    def _fetch(self) -> str | None:
        """Bring the branch here; return its newest commit, or None where there is none yet."""
        if not (self.folder / "HEAD").exists():
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._git("init", "--quiet", "--bare", inside=False)
        listed = self._git("ls-remote", self.remote, self._ref)
        if not listed:
            return None
        # Under its own name for each address, so that two remotes do not share a branch.
        self._git("fetch", "--quiet", "--no-tags", self.remote, f"+{self._ref}:{self._tracked}")
        return (self._git("rev-parse", self._tracked) or b"").decode().strip()

    @property
    def _tracked(self) -> str:
        return f"refs/anchors/{sha256(self.remote.encode()).hexdigest()[:16]}"

    def _leads_to(self, commit: str, tip: str) -> bool:
        return self._git("merge-base", "--is-ancestor", commit, tip, check=False) is not None

    def _held(self, commit: str | None, origin: str) -> bytes | None:
        if commit is None:
            return None
        return self._git("cat-file", "blob", f"{commit}:{place(origin)}", check=False)

    def _commit(self, parent: str | None, origin: str, note: bytes) -> str:
        """Make the commit that puts a note in its place, beside those of other logs."""
        blob = self._out("hash-object", "-w", "--stdin", given=note)
        listed = self._git("ls-tree", parent) if parent else b""
        rows = [row for row in (listed or b"").splitlines() if not row.endswith(_named(origin))]
        rows.append(f"100644 blob {blob}\t{place(origin)}".encode())
        tree = self._out("mktree", given=b"".join(row + b"\n" for row in rows))
        parents = ("-p", parent) if parent else ()
        return self._out("commit-tree", tree, *parents, "-m", f"checkpoint of {origin}")

    def _out(self, *words: str, given: bytes = b"") -> str:
        return (self._git(*words, given=given) or b"").decode().strip()

    def _git(
        self, *words: str, given: bytes = b"", check: bool = True, inside: bool = True
    ) -> bytes | None:
        """Run git; None when it fails and ``check`` is off."""
        where = ("--git-dir", os.fspath(self.folder)) if inside else ()
        tail = () if inside else (os.fspath(self.folder),)
        command = ("git", "-c", "core.hooksPath=/dev/null", *where, *words, *tail)
        try:
            done = subprocess.run(
                command,
                input=given,
                capture_output=True,
                timeout=TIMEOUT_S,
                env=_environment(os.environ),
                check=False,
            )
        except FileNotFoundError:
            raise AnchorError("an anchor in git needs the program `git`") from None
        except subprocess.TimeoutExpired:
            raise AnchorError(f"`{self.name}`: git gave no answer in {TIMEOUT_S:.0f} s") from None
        if done.returncode == 0:
            return done.stdout
        if check:
            said = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
            raise AnchorError(f"`{self.name}`: git cannot {words[0]}: {said[:200]}")
        return None


def place(origin: str) -> str:
    """
    Return the name under which a log's checkpoint lies on the branch.

    >>> place("example.com/log")
    '4d3203c8f35cdf60'
    """
    return sha256(origin.encode()).hexdigest()[:16]


def _named(origin: str) -> bytes:
    return f"\t{place(origin)}".encode()


def _text(note: bytes) -> str:
    return note.decode("utf-8", "replace").rpartition("\n\n")[0] + "\n"


def _origin(note: bytes) -> str:
    return Checkpoint.parse(_text(note)).origin


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return git's environment: it asks nothing, and means no repository of the caller's."""
    kept = {k: v for k, v in environ.items() if not k.startswith("GIT_") or k == "GIT_SSH_COMMAND"}
    return {
        **kept,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_AUTHOR_NAME": _WHO,
        "GIT_AUTHOR_EMAIL": "",
        "GIT_COMMITTER_NAME": _WHO,
        "GIT_COMMITTER_EMAIL": "",
    }
