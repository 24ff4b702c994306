"""
Fixtures for authors of a harness: ``pytest_plugins = ["broker.testing.fixtures"]``.

``replay_runtime`` makes runtimes that are cleaned up after the test; ``replay`` runs a script at
once and returns what it left behind. Both take what ``create_replay_runtime`` takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from broker.testing.replay import Replayed, ReplayRuntime, create_replay_runtime


@pytest.fixture
def replay_runtime() -> Iterator[Callable[..., ReplayRuntime]]:
    """Return what makes a runtime; each is cleaned up after the test."""
    with ExitStack() as stack:
        yield lambda *given, **named: stack.enter_context(create_replay_runtime(*given, **named))


@pytest.fixture
def replay(replay_runtime: Callable[..., ReplayRuntime]) -> Callable[..., Replayed]:
    """Return what runs a script on fakes and returns what it left behind."""
    return lambda *given, **named: replay_runtime(*given, **named).run()
