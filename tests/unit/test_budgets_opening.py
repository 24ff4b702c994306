"""Which store an address means."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.budgets.opening import open_budget, open_store
from broker.budgets.setting import BudgetSetting
from broker.budgets.sqlite import SqliteStore
from broker.errors import ConfigError, StoreError, UnverifiableError
from tests.budgetkit import up_to


def test_a_file_is_a_store(tmp_path: Path) -> None:
    """An address of a file gives counts in it, with a holder of its own each time."""
    url = f"sqlite://{tmp_path}/counts/file"
    one, other = open_budget(url), open_budget(url)
    assert isinstance(one.store, SqliteStore)
    one.begin("r")
    assert one.settle(("r",), 1, up_to(5), limits=(5,)).allowed
    assert other.spent(("r",)) == (1,)


@pytest.mark.parametrize("url", ["redis://far.example/0", "postgresql://b@far.example/d"])
def test_nothing_leaves_this_machine_without_tls(url: str) -> None:
    """A plain connection to another machine is an error before anything is sent."""
    with pytest.raises(ConfigError, match="without TLS"):
        open_store(BudgetSetting(url), {})


def test_a_password_must_be_where_it_is_said_to_be(tmp_path: Path) -> None:
    """A variable that is not set, a file that is missing, empty or open to others, is an error."""
    file = tmp_path / "password"
    with pytest.raises(ConfigError, match="`COUNTS`"):
        open_store(BudgetSetting("redis://localhost", password="COUNTS"), {})
    setting = BudgetSetting("redis://localhost", password_file=file)
    with pytest.raises(UnverifiableError):
        open_store(setting, {})
    file.write_text("\n", encoding="utf-8")
    os.chmod(file, 0o600)
    with pytest.raises(ConfigError, match="no password"):
        open_store(setting, {})
    file.write_text("x\n", encoding="utf-8")
    os.chmod(file, 0o644)
    with pytest.raises(UnverifiableError):
        open_store(setting, {})


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1", "postgresql://b@127.0.0.1:1/d"])
def test_a_server_that_is_not_there_is_a_store_error(url: str) -> None:
    """Nothing listens: the error says which budget, and no call is allowed."""
    with pytest.raises(StoreError, match="cannot be asked"):
        open_store(BudgetSetting(url), {}, try_s=0.5)
