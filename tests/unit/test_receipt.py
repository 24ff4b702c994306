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
