"""
What lies in the folders of a workspace, as the walls need to know it.

Decided here: how an entry of the disk becomes an ``Item``. Not decided here: what follows from
it (``broker.sandbox.plan``). No link is followed: where one leads is another place, with walls of
its own. A folder that cannot be listed has no entries, so nothing in it is granted singly.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence

from broker.sandbox.plan import Item, Listing, guarded


def listing(root: str) -> Listing:
    """
    Return what lists the folders of a workspace, each time anew.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     os.symlink("x", os.path.join(folder, "a"))
    ...     listing(folder)("")
    [Item(name='a', kind='link', second=False)]
    """

    def entries(place: str) -> Sequence[Item]:
        try:
            with os.scandir(os.path.join(root, place)) as found:
                return [_entry(each) for each in found]
        except OSError:
            return []

    return entries


def _entry(found: os.DirEntry[str]) -> Item:
    if found.is_symlink():
        return Item(found.name, "link")
    if found.is_dir(follow_symlinks=False):
        return Item(found.name, "folder")
    try:
        status = found.stat(follow_symlinks=False)
    except OSError:
        return Item(found.name, "other")  # it went away meanwhile
    if not stat.S_ISREG(status.st_mode):
        return Item(found.name, "other")
    return Item(found.name, "file", status.st_nlink > 1)


def guarded_in(root: str, trees: Iterable[str]) -> list[str]:
    """Return the guarded places below trees of a workspace: repositories, and our settings."""
    found = []
    for tree in trees:
        for above, folders, files in os.walk(tree):
            place = os.path.relpath(above, root)
            start = "" if place == "." else f"{place}/"
            found += [f"{start}{n}" for n in (*folders, *files) if guarded(f"{start}{n}/")]
            folders[:] = [n for n in folders if not guarded(f"{start}{n}/")]
    return found
