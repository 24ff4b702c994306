"""
Which files hold credentials, and which ones control an agent or run by themselves.

Decided here: the names. Not decided here: what follows (``broker.permissions.hard``).

Rules a maintainer keeps: names are compared without regard to case, since some file systems do
so; a name is on a list because of what such a file *is*, not because of what may be in it.
"""

from __future__ import annotations

import re
from typing import Final

# Folders of which everything is a credential.
_FOLDERS: Final = (
    r"\.(?:ssh|gnupg|aws|azure|kube|password-store)|\.config/(?:gcloud|gh)"
    r"|\.local/share/keyrings|library/keychains"
)
_FILES: Final = (
    r"[._]netrc|\.(?:git-credentials|pgpass|npmrc|pypirc|htpasswd|env)|[^/]*\.(?:p12|pfx|kdbx)"
    r"|id_(?:rsa|dsa|ecdsa|ed25519|ecdsa_sk|ed25519_sk)|\.docker/config\.json"
    r"|\.env\.(?!(?:example|sample|template|dist|defaults?)/*$)[^/]+"
)
_PLACES: Final = r"/etc/(?:shadow|gshadow|sudoers|master\.passwd)-?|/proc/[^/]+/(?:environ|mem)"
_CREDENTIALS: Final = re.compile(
    rf"(?:.*/)?(?:(?:{_FOLDERS})(?:/.*)?|(?:{_FILES})/*)|(?:{_PLACES})/*", re.DOTALL
)
_SPELLED: Final = re.compile(r"/\.?(?=/)|^(?:\./)+|/\.$")  # what makes no difference in a path
# Folders and files that tell an agent what it may do, or that run when somebody merely looks.
_CONTROLS: Final = frozenset(
    """
    .git .claude .codex .gemini .qwen .opencode .pi .copilot .cline .clinerules .cursor .windsurf
    .broker .vscode .husky .envrc .mcp.json .claude.json broker.toml opencode.json opencode.jsonc
    """.split()  # noqa: SIM905 - a list of words reads better than a page of quotes
)


def holds_credentials(path: str) -> bool:
    """
    Return whether a path, absolute or not, leads to a file that holds credentials.

    >>> holds_credentials("/home/a/.ssh/config"), holds_credentials("src/.env.local")
    (True, True)
    >>> holds_credentials(".env.example"), holds_credentials("keys/id_rsa.pub")
    (False, False)
    """
    return _CREDENTIALS.fullmatch(_plain(path)) is not None


def _plain(path: str) -> str:
    while (shorter := _SPELLED.sub("", path)) != path:
        path = shorter
    return path.casefold()


def controls_agents(path: str) -> bool:
    """
    Return whether a path leads to something that controls an agent, or runs by itself.

    >>> controls_agents("web/.claude/settings.json"), controls_agents(".GIT/config")
    (True, True)
    >>> controls_agents("docs/claude.md")
    False
    """
    return not _CONTROLS.isdisjoint(path.casefold().split("/"))
