"""The configuration's file: missing is no file, and unreadable is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.configfile import read_text
from broker.errors import ConfigError


def test_a_missing_file_is_none_and_an_unreadable_one_an_error(tmp_path: Path) -> None:
    """Only a name that is not there counts as no file."""
    path = tmp_path / "broker.toml"
    assert read_text(path) is None
    path.write_text("x = 1\n", encoding="utf-8")
    path.chmod(0o600)
    assert read_text(path) == "x = 1\n"
    path.chmod(0o622)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_text(path)
    path.unlink()
    path.symlink_to(tmp_path)
    with pytest.raises(ConfigError, match="not a plain file"):
        read_text(path)
