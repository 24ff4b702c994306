"""A suggested scope as a policy file with tests of its own."""

from __future__ import annotations

from broker.calls import ALLOW, Call, Decision, PathSubject, Refusal
from broker.catalogs import load_catalogs
from broker.policy import load_policy
from broker.replay.policyfile import policy_text
from broker.replay.reading import ReadCall
from broker.replay.seen import SeenCall
from broker.replay.suggest import suggest

CATALOGS = load_catalogs()
EDIT = Call("Edit", paths=(PathSubject("", "src/a.py", "write", ("src/a.py/",)),))
BASH = Call("Bash", opaque=True, command="rm -rf /")
CALLS = [ReadCall(SeenCall(n, 0, c.tool), c, "receipt") for n, c in enumerate((EDIT, BASH))]


def _text(refused: tuple[str, ...] = ("fetch",), about: str = "For a test.") -> str:
    def decide(tool: str, arguments: dict[str, object]) -> Decision:
        return Decision(Refusal("tools", tool, "no")) if tool in refused else ALLOW

    found = suggest([("r", CALLS)], CATALOGS)
    return policy_text(found, CALLS, about=about, known=CATALOGS.known, decide=decide)


def test_the_file_is_a_policy() -> None:
    """It says what it is for, holds the scope, and expects one call of each tool."""
    policy = load_policy(_text(), "x", groups=CATALOGS.groups())
    assert policy.about == "For a test."
    assert "writes=src/a.py" in policy.texts
    assert [e.text for e in policy.expects] == [
        'expect allow  Bash(command="true")',
        'expect allow  Edit(file_path="src/a.py")',
        'expect refuse fetch(url="https://example.org/")',
    ]
    assert policy.expects[-1].caveat == "tools"


def test_no_expectation_is_written_that_does_not_hold() -> None:
    """A tool whose made-up call would be refused has no line."""
    assert "Bash" not in _text(("Bash",)).partition("\n\n")[2]


def test_no_command_of_a_run_is_written_down() -> None:
    """What a shell ran is not copied into the file, where it would be run by whoever tries it."""
    assert "rm -rf" not in _text()


def test_a_comment_stays_a_comment() -> None:
    """A name with a newline or an unseen character cannot begin a line of its own."""
    text = _text(about="a\ntools = shell\u202e")
    assert text.splitlines()[0] == "# a tools = shell?"
