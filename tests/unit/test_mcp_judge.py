"""A session that breaks refuses."""

from __future__ import annotations

from typing import Any

from broker.calls import Decision
from broker.mcp.judge import Judge
from tests.mcpkit import Yes, offer


class Broken(Yes):
    """A session in which everything breaks."""

    def decide(self, tool: object, arguments: object, **more: Any) -> Decision:
        """Break."""
        raise RuntimeError("no")

    def result(self, call_id: str, *, ok: bool, output: object = None) -> None:
        """Break."""
        raise OSError("full")


def test_whatever_breaks_is_a_refusal() -> None:
    """An error nobody foresaw refuses by the caveat `session`."""
    decision = Judge(Broken(), offer(), "notes").decide("x", {}, "1")
    assert decision.refusal is not None
    assert decision.refusal.caveat == "session"


def test_a_result_that_cannot_be_recorded_is_said() -> None:
    """The call has run already: a person is told, and the answer goes on."""
    said: list[str] = []
    Judge(Broken(), offer(), "notes", say=said.append).result("1", ok=True, output=None)
    assert said == ["warning: not recorded: full"]


def test_the_session_is_asked_as_the_gateway_stands() -> None:
    """Server, folder and `again` go with every question."""
    seen: dict[str, object] = {}

    class Noting(Yes):
        def decide(self, tool: object, arguments: object, **more: Any) -> Decision:
            seen.update(more)
            return super().decide(tool, arguments)

    Judge(Noting(), offer(), "notes", cwd="/w", again=True).decide("x", {}, "1")
    assert seen == {"call_id": "1", "server": "notes", "cwd": "/w", "again": True}
