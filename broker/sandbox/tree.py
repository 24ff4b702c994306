"""
What lies in the folders of a workspace, as the walls need to know it.

Decided here: how an entry of the disk becomes an ``Item``. Not decided here: what follows from
it (``broker.sandbox.plan``). No link is followed: where one leads is another place, with walls of
its own. A folder that cannot be listed has no entries, so nothing in it is granted singly.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from broker.sandbox.plan import Item, Listing


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
