"""`broker record` hands over exactly what was typed."""

from __future__ import annotations

import pytest

from broker.capture import alone
from tests.console import Console


def test_everything_typed_arrives(broker: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command's own options are not ours, and the exit code is its own."""
    found: list[tuple[list[str], dict[str, object]]] = []

    def stand_in(command: list[str], **more: object) -> int:
        found.append((list(command), more))
        return 7

    monkeypatch.setattr(alone, "record", stand_in)
    assert broker("record", "--quiet", "--", "claude", "-p", "--quiet").code == 7
    assert broker("record", "agent", "--quiet").code == 7
    assert found == [
        (["claude", "-p", "--quiet"], {"quiet": True}),
        (["agent", "--quiet"], {"quiet": False}),
    ]


def test_nothing_to_record(broker: Console) -> None:
    """Without a command the mistake is named."""
    said = broker("record")
    assert said.code == 2
    assert "name the command behind `--`" in said.err
