"""The table `[budget]`."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.budgets.setting import BudgetSetting, read_setting
from broker.config import load_config
from broker.errors import ConfigError

FOLDER = Path("/conf")


def test_files_lie_beside_the_configuration() -> None:
    """A relative file is in the configuration's folder, and an absolute one where it says."""
    found = read_setting(
        {"url": "rediss://h", "password_file": "p", "authorities": "/ca.pem", "vouched": True},
        FOLDER,
    )
    assert found == BudgetSetting("rediss://h", FOLDER / "p", "", Path("/ca.pem"), True)


@pytest.mark.parametrize(
    ("table", "word"),
    [
        ({}, "`url` is needed"),
        ({"url": ""}, "text in quotes"),
        ({"url": "http://h"}, "begins with"),
        ({"url": "redis://h:port"}, "no address"),
        ({"url": "redis://u:secret@h"}, "password_file"),
        ({"url": "postgresql://h/d?password=secret"}, "password_file"),
        ({"url": "sqlite://counts"}, "absolute path"),
        ({"url": "redis://h", "password": "no name"}, "environment variable"),
        ({"url": "redis://h", "password": "P", "password_file": "p"}, "not both"),
        ({"url": "redis://h", "vouched": "yes"}, "true or false"),
        ({"url": "redis://h", "uri": "x"}, "no such setting"),
        ({"url": 7}, "text in quotes"),
    ],
)
def test_what_means_nothing_is_an_error(table: dict[str, object], word: str) -> None:
    """Each is told what helps, and a password that stands in an address is not repeated."""
    with pytest.raises(ConfigError, match=word) as raised:
        read_setting(table, FOLDER)
    assert "secret" not in str(raised.value)


def test_the_configuration_names_the_line(tmp_path: Path) -> None:
    """A fault is told with the file and the line; a good table is part of the configuration."""
    file = tmp_path / "broker.toml"
    file.write_text('[broker]\nrecord = false\n[budget]\nurl = "redis://u:pw@h"\n', "utf-8")
    file.chmod(0o600)
    with pytest.raises(ConfigError, match="line 4: a password"):
        load_config(tmp_path)
    file.write_text('[budget]\nurl = "sqlite:///x"\n', "utf-8")
    assert load_config(tmp_path).budget == BudgetSetting("sqlite:///x")
