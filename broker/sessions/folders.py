"""
Whether the broker's own folders can be believed.

Decided here: which of them nobody else may write, and which must be no links. Not decided here:
what is found in them.

Rule a maintainer keeps: a folder whose files are obeyed or taken for records is named here.
"""

from __future__ import annotations

import os

from broker.home import Home
from broker.receipt import disk
from broker.sessions.typedscope import POLICIES


def check_folders(home: Home) -> None:
    """
    Check that nobody else can put files where the broker believes what it finds.

    Raises:
        UnverifiableError: a folder belongs to another user, or others can write it, or one that
            holds records is a link.
    """
    disk.check_unlinked(home.sessions, home.heads, home.checkpoints, home.ledger, home.revoked)
    for folder, what in (
        (home.state, "state folder"),
        (home.sessions, "folder of sessions"),
        (home.heads, "folder of heads"),
        (home.checkpoints, "folder of checkpoints"),
        (home.revoked, "folder of revocations"),
        (home.config, "configuration folder"),
        (home.config / "catalogs", "folder of catalogs"),
        (home.config / POLICIES, "folder of policies"),
    ):
        if os.path.lexists(folder):
            disk.check_folder(folder, what)
