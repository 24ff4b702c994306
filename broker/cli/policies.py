"""
Where the commands of `broker policy` find a policy.

Decided here: that a file is named as a shell names it, and a policy with or without its ``@``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from broker.home import Home
    from broker.policy import Policy


def find(name: str, folders: tuple[Path, ...]) -> Policy:
    """
    Return a policy by its name or its file, however the file is spelled.

    Raises:
        PolicyError, ScopeError: there is none, or it is malformed.

    >>> find("@review", ()).name
    'review'
    """
    from broker.policy import find_policy

    name = name.removeprefix("@")
    if "/" not in name and name.endswith(".scope"):
        name = f"./{name}"
    return find_policy(name, folders)


def home() -> Home:
    """Return where the broker keeps its files."""
    from broker.home import Home

    return Home.find(os.environ)


def folders() -> tuple[Path, ...]:
    """Return the folders of the person's own policies."""
    from broker.cli.dry import policy_folders

    return policy_folders(home())
