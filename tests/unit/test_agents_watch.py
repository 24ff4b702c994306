"""A change of a file is seen, whatever its times say."""

from __future__ import annotations

import os
from pathlib import Path

from broker.agents.watch import stamp


def test_a_change_is_seen_by_its_stamp(tmp_path: Path) -> None:
    """Coming, changing and going each change the stamp, dated back or not."""
    file = tmp_path / "settings.json"
    stamps = [stamp((file,))]
    assert stamps[0] == (None,)
    file.write_text("{}")
    stamps.append(stamp((file,)))
    before = file.stat()
    file.write_text("[]")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    stamps.append(stamp((file,)))
    assert len(set(stamps)) == 3
    assert stamp((file,)) == stamps[-1]
    file.unlink()
    assert stamp((file,)) == stamps[0]
