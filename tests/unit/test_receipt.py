"""The package of receipts publishes its names, and loads nothing before they are used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import broker
import broker.receipt
from broker.receipt import Receipts, verify


def test_public_names_load_late_and_are_the_right_things() -> None:
    """The package names every public thing once, loads none of it early, and `verify` calls."""
    for name in broker.receipt.__all__:
        assert name in dir(broker.receipt)
        assert getattr(broker.receipt, name).__name__ == name
    assert callable(verify)
    assert (broker.Receipts, broker.verify) == (Receipts, verify)
    with pytest.raises(AttributeError, match="nothing_here"):
        _ = broker.receipt.nothing_here
    code = (
        "import sys, broker.receipt; from broker.receipt.verify import Verdict;"
        "from broker.receipt import verify; assert verify.__name__ == 'verify';"
        "import broker.receipt.store; assert callable(broker.receipt.verify)"
    )
    light = "import sys, broker.receipt; sys.exit('broker.receipt.store' in sys.modules)"
    root = Path(__file__).resolve().parents[2]
    for text in (code, light):
        assert subprocess.run([sys.executable, "-c", text], cwd=root, check=False).returncode == 0


def test_other_systems_can_import_and_are_told_at_use() -> None:
    """Where locks and owners are missing, every module imports, and using one says why not."""
    code = """
import os, sys
for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY", "O_CLOEXEC", "pwrite", "pread",
             "register_at_fork", "geteuid", "fdatasync", "fstatvfs"):
    delattr(os, name)
sys.platform, sys.modules["fcntl"] = "win32", None
from pathlib import Path
from broker.errors import StoreError
from broker.home import Home
from broker.receipt import Receipts, load_key, load_or_create_key, read_entries, verify
from broker.receipt.keys import Key
import broker.receipt.display
key, place = Key.of(bytes(range(32))), Path("nowhere")
receipts = Receipts(Home(place, place, place, place), key)
for act in (
    lambda: receipts.create("s1", opening={}, at=0),
    lambda: receipts.resume("s1", at=0),
    lambda: verify(place, key=key, head=None),
    lambda: next(read_entries(place, key, None)),
    lambda: load_key(place),
    lambda: load_or_create_key(place),
):
    try:
        act()
    except StoreError as error:
        assert error.code == "store.platform"
    else:
        sys.exit("something was done")
"""
    root = Path(__file__).resolve().parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
