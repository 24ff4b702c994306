"""Questions to the person about calls that a rule refused."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from broker.errors import InputError, StoreError
from broker.intent import TypedLine
from broker.session import Session
from broker.sessions.asking import MAX_QUESTIONS, MAX_WRONG, AskingSession, Question
from tests.sessionkit import Bench, bench, drop

__all__ = ["bench"]

SCOPE = ('tools=Read,mcp__bank__pay(to="A", amount<=10)', "calls=5")


def typed(text: str) -> TypedLine:
    """Return a line as a person types it."""
    return TypedLine(text, "terminal")


class Asked:
    """A session that asks, and what it asked; ``answer`` is typed at once, if there is one."""

    def __init__(self, bench: Bench, scope: tuple[str, ...] = SCOPE, **more: Any) -> None:
        self.questions: list[Question] = []
        self.answer = ""
        self.session = AskingSession.open(
            scope, workspace=bench.workspace, home=bench.home, outside=bench.outside, **more
        )
        assert isinstance(self.session, AskingSession)
        self.session.wait_s = 0.02
        self.session.ask = self.hear

    def hear(self, question: Question) -> None:
        self.questions.append(question)
        if self.answer:
            self.session.answered(typed(self.answer.replace("CODE", question.code)))

    def pay(self, to: str = "B", amount: float = 5, **more: Any) -> str:
        """Pay, and return the caveat that refused, or nothing."""
        decision = self.session.decide("pay", {"to": to, "amount": amount}, server="bank", **more)
        return "" if decision.refusal is None else decision.refusal.caveat

    def kinds(self, bench: Bench) -> list[str]:
        return [kind for kind, _ in bench.entries(self.session.sid)]


def test_a_yes_lets_this_very_call_through_once(bench: Bench) -> None:
    """The refusal, the question, the line, the ticket and the allowance stand in the receipt."""
    asked = Asked(bench, conceal=())
    asked.answer = "yes CODE the plumber"
    assert asked.pay() == ""
    assert asked.kinds(bench) == [
        *("open", "ticket", "decision", "note", "intent", "ticket", "decision"),
    ]
    entries = bench.entries(asked.session.sid)
    minted = entries[5][1]
    assert minted["beside"] == asked.session.ticket.id
    assert minted["for"]["server"] == "bank"
    assert entries[4][1]["line"].endswith("the plumber")
    assert entries[6][1]["ticket"] == minted["ticket"] != asked.session.ticket.id
    assert 'mcp__bank__pay(to="B", amount=5)' in str(minted["caveats"])
    assert asked.pay() == "calls"  # once
    asked.answer = ""
    assert asked.pay(to="C") == "tools"
    assert asked.pay(amount=6) == "tools"
    assert asked.session.spent() == (1,)
    asked.session.seal()
    assert bench.verdict(asked.session.sid).state == "SEALED"


def test_always_is_for_the_same_call_and_spends_the_same_budget(bench: Bench) -> None:
    """It never makes more calls than the scope has, nor any other call."""
    asked = Asked(bench)
    asked.answer = "always CODE"
    assert [asked.pay() for _ in range(6)] == ["", "", "", "", "", "calls"]
    assert asked.session.spent() == (5,)
    assert asked.pay(to="A") == "calls"
    assert len(asked.questions) == 1


def test_counts_are_the_same_after_a_crash_and_the_yes_is_asked_for_again(bench: Bench) -> None:
    """What such a ticket spent is spent; what it admitted was for that run."""
    asked = Asked(bench)
    asked.answer = "always CODE"
    assert [asked.pay(), asked.pay()] == ["", ""]
    drop(asked.session)
    again = Session.resume(asked.session.sid, home=bench.home, outside=bench.outside)
    assert again.spent() == (2,)
    assert not again.decide("pay", {"to": "B", "amount": 5}, server="bank").allowed


def test_a_no_is_final_for_this_call(bench: Bench) -> None:
    """The same is not asked again, whatever the agent does; another call may be asked about."""
    asked = Asked(bench)
    asked.answer = "no CODE"
    assert [asked.pay() for _ in range(3)] == ["tools"] * 3
    assert len(asked.questions) == 1
    decision = asked.session.decide("pay", {"to": "B", "amount": 5}, server="bank")
    assert decision.refusal is not None
    assert "said no" in decision.refusal.reason
    assert asked.pay(to="C") == "tools"
    assert len(asked.questions) == 2


def test_without_an_answer_it_stays_refused_and_a_late_yes_counts(bench: Bench) -> None:
    """The agent is told to come again, and the next identical call finds the answer."""
    asked = Asked(bench)
    decision = asked.session.decide("pay", {"to": "B", "amount": 5}, server="bank")
    assert decision.refusal is not None
    assert "is being asked" in decision.refusal.reason
    (question,) = asked.session.open_questions()
    asked.session.answered(typed(f"yes {question.code}"))
    assert asked.pay() == ""
    assert asked.session.open_questions() == ()


def test_a_call_waits_for_its_answer(bench: Bench) -> None:
    """An answer that comes while the call waits lets it through at once."""
    asked = Asked(bench)
    asked.session.wait_s = 20

    def later(question: Question) -> None:
        line = typed(f"yes {question.code}")
        threading.Timer(0.05, asked.session.answered, (line,)).start()

    asked.session.ask = later
    assert asked.pay() == ""


@pytest.mark.parametrize(
    ("tool", "arguments", "scope"),
    [
        ("Bash", {"command": "ls"}, SCOPE),  # no rule for the tool
        ("Read", {"file_path": "/etc/passwd"}, ("tools=Read(file_path)", "paths=src/**")),
        ("Read", {"file_path": "/etc/passwd"}, ('tools=Read(file_path="a")', "paths=src/**")),
        ("Bash", {"command": "ls"}, ('tools=B*(command="pwd")', "paths=src/**")),
        ("pay", {"to": "B", "amount": float("nan")}, ("tools=pay(to)",)),
        ("pay", "no object", ("tools=pay(to)",)),
        ("pay*", {"to": "B"}, ('tools=*(to="A")',)),
        ("pay", {}, ('tools=pay(to="A")',)),
    ],
)
def test_only_a_refusal_by_arguments_is_asked_about(
    bench: Bench, tool: str, arguments: object, scope: tuple[str, ...]
) -> None:
    """Paths, hosts, other tools and what cannot be read are refused as ever, unasked."""
    asked = Asked(bench, scope)
    asked.answer = "yes CODE"
    assert not asked.session.decide(tool, arguments, cwd=str(bench.workspace)).allowed
    assert asked.questions == []


def test_a_yes_never_reaches_past_paths_or_the_end(bench: Bench) -> None:
    """The ticket for the call keeps the places and the end of the one that it stands beside."""
    asked = Asked(bench, ('tools=Edit(file_path under "src/in/")', "writes=src/**", "until=1h"))
    asked.answer = "always CODE"
    edit = {"file_path": "src/a.py", "old_string": "a", "new_string": "b"}
    cwd = str(bench.workspace)
    assert asked.session.decide("Edit", edit, cwd=cwd).allowed
    (bench.workspace / "src" / "a.py").unlink()
    (bench.workspace / "src" / "a.py").symlink_to("/etc/passwd")
    moved = asked.session.decide("Edit", edit, cwd=cwd)
    assert not moved.allowed  # the same arguments lead to another place now
    (bench.workspace / "src" / "a.py").unlink()
    (bench.workspace / "src" / "a.py").write_text("")
    bench.clock.at += 3_600 * 10**9
    late = asked.session.decide("Edit", edit, cwd=cwd)
    assert late.refusal is not None
    assert late.refusal.caveat in ("tools", "until")


def test_a_subagents_call_is_asked_about_in_its_name(bench: Bench) -> None:
    """The yes is for whoever asked, and never for what its parent handed down."""
    asked = Asked(bench)
    asked.session.delegate(["calls=2"], holder="agent:x")
    asked.answer = "always CODE"
    assert asked.pay(actor="agent:x") == ""
    assert asked.questions[0].actor == "agent:x"
    assert asked.pay(actor="agent:x") == ""
    assert asked.pay(actor="agent:x") == "calls"  # its own budget still holds
    asked.answer = ""
    assert asked.pay() == "tools"
    assert asked.session.spent() == (2,)


def test_what_answers_nothing(bench: Bench) -> None:
    """Not another code, not a text, not a subagent's line; and soon no line at all."""
    asked = Asked(bench)
    assert asked.pay() == "tools"
    (question,) = asked.questions
    for line in (
        "yes",
        "yes please",
        "",
        f"yes{question.code}",
        question.code,
        f"Yes {question.code}",
    ):
        with pytest.raises(InputError):
            asked.session.answered(typed(line))
    with pytest.raises(InputError):
        asked.session.answered(f"yes {question.code}")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(InputError):
        asked.session.answered(TypedLine(f"yes {question.code}", "terminal", depth=1))
    wrong = "000000" if question.code != "000000" else "000001"
    for _ in range(MAX_WRONG):
        with pytest.raises(InputError):
            asked.session.answered(typed(f"yes {wrong}"))
    with pytest.raises(InputError, match="too many"):
        asked.session.answered(typed(f"yes {question.code}"))
    assert asked.pay() == "tools"


def test_an_agent_cannot_wear_a_person_down(bench: Bench) -> None:
    """There is an end to questions, and `never` is one at once."""
    asked = Asked(bench)
    asked.session.wait_s = 0
    for n in range(MAX_QUESTIONS + 3):
        asked.pay(to=f"B{n}")
    assert len(asked.questions) == MAX_QUESTIONS
    other = Asked(bench)
    other.pay()
    other.session.answered(typed("never"))
    assert other.pay(to="C") == "tools"
    assert len(other.questions) == 1
    assert other.session.open_questions() == ()


def test_a_session_that_is_over_takes_no_answer(bench: Bench) -> None:
    """Behind the seal nothing is minted."""
    asked = Asked(bench)
    asked.pay()
    asked.session.seal()
    with pytest.raises(StoreError):
        asked.session.answered(typed(f"yes {asked.questions[0].code}"))


def test_a_call_that_a_gateway_meets_again_is_one_call(bench: Bench) -> None:
    """A hook was let through by a yes; the gateway finds that, and debits nothing more."""
    asked = Asked(bench)
    asked.answer = "yes CODE"
    call = ("mcp__bank__pay", {"to": "B", "amount": 5})
    assert asked.session.decide(*call, server="bank", call_id="h").allowed
    assert asked.session.decide(*call, server="bank", call_id="g", again=True).allowed
    assert asked.session.spent() == (1,)
    assert not asked.session.decide(*call, server="bank", call_id="g2", again=True).allowed


def test_without_somebody_to_ask_nothing_changes(bench: Bench) -> None:
    """A session that nobody listens to refuses like any other."""
    asked = Asked(bench)
    asked.session.ask = None
    assert asked.pay() == "tools"
    assert "note" not in asked.kinds(bench)
