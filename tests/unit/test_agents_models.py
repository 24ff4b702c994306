"""A key of the environment is kept out of an agent that is pointed at us."""

from __future__ import annotations

from broker.agents.adapter import Prepared
from broker.agents.models import MARK, ModelAddress, anywhere, pointed


def test_a_token_stands_for_each_key() -> None:
    """The agent gets tokens that are new each time, and we know what they stand for."""
    model = ModelAddress("m", "http://m")
    environ = {"A_KEY": "one", "B_KEY": "two", "EMPTY": ""}
    names = ["A_KEY", "B_KEY", "EMPTY", "MISSING"]
    found, again = (pointed(Prepared(("a",)), [model], {"X": "y"}, environ, names) for _ in "ab")
    assert found.prepared.tokens == ("A_KEY", "B_KEY")
    given = found.prepared.environ
    assert given["X"] == "y"
    assert [found.models[0].keys[given[name]] for name in ("A_KEY", "B_KEY")] == ["one", "two"]
    assert given["A_KEY"].startswith(MARK)
    assert given["A_KEY"] != again.prepared.environ["A_KEY"]
    assert "EMPTY" not in given
    assert "one" not in repr(found.models)


def test_a_command_that_is_not_known_keeps_its_keys() -> None:
    """Nobody knows what else it uses them for."""
    found = anywhere(Prepared(("a",)), "http://us/{}".format, {"OPENAI_API_KEY": "k"})
    assert found.prepared.tokens == ()
    assert "OPENAI_API_KEY" not in found.prepared.environ
