"""What adapters of frameworks are tried on."""

from __future__ import annotations

import pytest

from broker.frameworks.calling import begin
from broker.testing.stage import SCOPE, Ask, Trial, Trials


class TestStage(Trials):
    """A stage in a trial."""

    def test_tools_say_that_they_ran(self, trial: Trial) -> None:
        """Each tool writes down that it ran and with what, also one that fails."""
        stage = trial.stage([Ask("read", {}, "c1")])
        tools = {tool.__name__: tool for tool in stage.tools()}
        assert [t.__name__ for t in stage.tools("note", "read")] == ["read", "note"]
        assert tools["read"]("src/a.py") == "a = 1\n"
        assert tools["count"]([1, 2]) == "2"
        with pytest.raises(RuntimeError, match="the tool broke"):
            tools["fail"]("x")
        assert stage.ran == [("read", "src/a.py"), ("count", 2), ("fail", "x")]

    def test_the_receipt_is_read(self, trial: Trial) -> None:
        """What a trial tells of its receipt is what was decided."""
        with begin("note", {}, call_id="c1"):
            pass
        assert trial.answers() == [("note", "allow")]
        assert trial.entries("result")[0]["call"] == "c1"
        assert trial.entries("opened") == []
        assert "tools=" in SCOPE[0]
