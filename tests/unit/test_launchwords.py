"""What is said at a launch, and what never is."""

from __future__ import annotations

import io

from broker.agents.adapter import Plain, Prepared
from broker.launchwords import Streams, say_begun, say_beside, say_keys
from tests.sessionkit import Bench, bench

__all__ = ["bench"]


def streams() -> tuple[Streams, io.StringIO]:
    """Return where it is said, and what was."""
    said = io.StringIO()
    return Streams(said), said


def test_a_line_is_one_line_and_says_whose_it_is() -> None:
    """What an agent put into it can neither end the line nor draw on the terminal."""
    to, said = streams()
    to.say("a\nb\x1b[2J")
    assert said.getvalue().startswith("broker: a")
    assert said.getvalue().count("\n") == 1
    assert "\x1b" not in said.getvalue()


def test_a_stream_that_is_closed_ends_nothing() -> None:
    """A run goes on when nobody hears the broker."""
    to, said = streams()
    said.close()
    to.say("hello")


def test_a_key_is_named_and_never_said() -> None:
    """The variable is told; a token of the run in its place is not worth a word."""
    to, said = streams()
    environ = {"ANTHROPIC_API_KEY": "hidden-one", "OPENAI_API_KEY": "hidden-two"}
    say_keys("other", environ, Prepared(("x",), tokens=frozenset(("OPENAI_API_KEY",))), to)
    assert "ANTHROPIC_API_KEY" in said.getvalue()
    assert "OPENAI_API_KEY" not in said.getvalue()
    assert "hidden" not in said.getvalue()


def test_servers_without_a_gateway_are_named() -> None:
    """Where all stand behind it, nothing is said."""
    to, said = streams()
    say_beside((), to)
    assert said.getvalue() == ""
    say_beside(("docs", "git"), to)
    assert "`docs`, `git`" in said.getvalue()


def test_quiet_leaves_warnings(bench: Bench) -> None:
    """A warning about the scope, and that nothing holds a program, are said in any case."""
    session = bench.open(["calls=1", "calls=2"])
    assert session.warnings
    to, said = streams()
    say_begun(session, Plain(), "prog", None, to, quiet=True)
    lines = said.getvalue().splitlines()
    assert lines[0].startswith("broker: warning: ")
    assert "`prog` has no hook" in lines[-1]
