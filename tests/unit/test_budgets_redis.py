"""The store on a Redis server, as far as no server is needed; see tests/servers for the rest."""

from __future__ import annotations

import re
import sys
from importlib.resources import files
from typing import get_args

import pytest

from broker.budgets.redis import RedisStore
from broker.budgets.ruling import RUN, Kind
from broker.errors import InputError


def test_without_its_client_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is named, and nothing else is tried."""
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(InputError, match=r"capability-broker\[redis\]"):
        RedisStore("redis://h", "redis://h", try_s=1.0)


def test_the_script_ships_and_speaks_the_same_words() -> None:
    """The script is in the package, has the same kinds of answers and the same size of a run."""
    text = files("broker.budgets").joinpath("ruling.lua").read_text(encoding="utf-8")
    assert set(re.findall(r"answer\('([a-z]+)'", text)) == set(get_args(Kind))
    assert f"local RUN = {RUN}\n" in text
