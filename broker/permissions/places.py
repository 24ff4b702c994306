"""
Which files hold credentials, and which ones control an agent or run by themselves.

Decided here: the names. Not decided here: what follows (``broker.permissions.hard``).

Rules a maintainer keeps: names are compared without regard to case, since some file systems do
so; a name is on a list because of what such a file *is*, not because of what may be in it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from typing import Final

# Folders of which everything is a credential, each as the end of a path.
_KEPT_IN: Final = (
    (".ssh",),
    (".gnupg",),
    (".aws",),
    (".azure",),
    (".kube",),
    (".password-store",),
    (".config", "gcloud"),
    (".config", "gh"),
    (".local", "share", "keyrings"),
    ("library", "keychains"),
)
_KEPT_AS: Final = frozenset(
    [".netrc", "_netrc", ".git-credentials", ".pgpass", ".npmrc", ".pypirc", ".htpasswd", ".env"]
)
_KEPT_LIKE: Final = re.compile(
    r"id_(?:rsa|dsa|ecdsa|ed25519|ecdsa_sk|ed25519_sk)|.*\.(?:p12|pfx|kdbx)"
    r"|\.env\.(?!example$|sample$|template$|dist$|defaults?$).+"
)
_KEPT_AT: Final = re.compile(
    r"/etc/(?:shadow|gshadow|sudoers|master\.passwd)-?|/proc/[^/]+/(?:environ|mem)"
    r"|.*/\.docker/config\.json"
)
# Folders and files that tell an agent what it may do, or that run when somebody merely looks.
_CONTROLS: Final = frozenset(
    """
    .git .claude .codex .gemini .qwen .opencode .pi .copilot .cline .clinerules .cursor .windsurf
    .broker .vscode .husky .envrc .mcp.json .claude.json broker.toml opencode.json opencode.jsonc
    """.split()  # noqa: SIM905 - a list of words reads better than a page of quotes
)


def _names(path: str) -> list[str]:
    return [part for part in path.casefold().split("/") if part not in ("", ".")]


def holds_credentials(path: str) -> bool:
    """
    Return whether a path, absolute or not, leads to a file that holds credentials.

    >>> holds_credentials("/home/a/.ssh/config"), holds_credentials("src/.env.local")
    (True, True)
    >>> holds_credentials(".env.example"), holds_credentials("keys/id_rsa.pub")
    (False, False)
    """
    names = _names(path)
    if not names:
        return False
    last = names[-1]
    if last in _KEPT_AS or _KEPT_LIKE.fullmatch(last):
        return True
    if _KEPT_AT.fullmatch(posixpath.normpath(path.casefold())):
        return True
    return any(_holds(names, folder) for folder in _KEPT_IN)


def _holds(names: Sequence[str], folder: tuple[str, ...]) -> bool:
    size = len(folder)
    return any(tuple(names[n : n + size]) == folder for n in range(len(names) - size + 1))


def controls_agents(path: str) -> bool:
    """
    Return whether a path leads to something that controls an agent, or runs by itself.

    >>> controls_agents("web/.claude/settings.json"), controls_agents(".GIT/config")
    (True, True)
    >>> controls_agents("docs/claude.md")
    False
    """
    return any(name in _CONTROLS for name in _names(path))
