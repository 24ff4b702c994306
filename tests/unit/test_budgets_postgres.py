"""The store in a PostgreSQL database, as far as no server is needed; see tests/servers."""

from __future__ import annotations

import sys

import pytest

from broker.budgets.postgres import PostgresStore
from broker.errors import InputError


def test_without_its_client_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is named, and nothing else is tried."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InputError, match=r"capability-broker\[postgres\]"):
        PostgresStore("postgresql://h", "postgresql://h", try_s=1.0)


def test_an_address_that_cannot_be_read_is_an_error() -> None:
    """A parameter that libpq does not know is named before anything is asked."""
    with pytest.raises(InputError, match="no address of a database"):
        PostgresStore("x", "postgresql://h/d?nonsense=1", try_s=1.0)
