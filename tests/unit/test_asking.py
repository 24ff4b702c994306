"""A person is asked at a terminal, and by files at another one."""

from __future__ import annotations

import os
import pty
import select
import time
from collections.abc import Iterator

import pytest

from broker.asking import MAX_SHOWN_CHARS, Asker, AskingTerminal, asker_for, check_asking, lines_of
from broker.calls import PathSubject
from broker.errors import InputError
from broker.mailbox import Mailbox
from broker.sessions.asking import AskingSession, Question
from tests.sessionkit import Bench, bench

__all__ = ["bench"]

SCOPE = ('tools=pay(to="A")',)


def question(**more: object) -> Question:
    """Return a question with some fields set."""
    fields: dict[str, object] = {
        "number": 1,
        "code": "123456",
        "actor": "main",
        "tool": "pay",
        "server": None,
        "arguments": {},
        "paths": (),
        "reason": "why",
        "asked_at": 0,
    }
    return Question(**{**fields, **more})  # type: ignore[arg-type]  # tests name what they set


def test_a_question_shows_what_is_asked() -> None:
    """Who asks, every argument, where a path leads, and nothing that moves the cursor."""
    place = PathSubject("file", "link", "write", ("src/key/",))
    lines = lines_of(
        question(
            actor="agent:\u202ex",
            tool="p\x1b[2J",
            arguments={"to": 'A", amount = 0', "a\nb": ["x", {"y": 1}]},
            paths=(place,),
        )
    )
    assert "asked by agent:\\u202ex" in lines[0]
    assert '    to = "A\\", amount = 0"' in lines
    assert '    a\\u000ab = ["x", {"y": 1}]' in lines
    assert "    `link` leads to src/key" in lines
    assert all(line.isprintable() for line in lines)


def test_a_long_argument_is_never_shown_as_if_it_were_whole() -> None:
    """How much is missing stands there, with a digest of all of it."""
    short, long = lines_of(question(arguments={"a": "x" * 10, "b": "y" * 50_000}))[1:3]
    assert "more characters" not in short
    assert "more characters, SHA-256 " in long
    assert len(long) < MAX_SHOWN_CHARS + 200


@pytest.mark.parametrize("names", [["arguments"], ["notes,arguments"], ["all"]])
def test_what_is_asked_about_cannot_be_concealed(names: list[str]) -> None:
    """The ticket of a yes names the call's values."""
    check_asking(["intent"])
    with pytest.raises(InputError):
        check_asking(names)


class Screen:
    """Both ends of a terminal: what a person sees of it, and what they type."""

    def __init__(self) -> None:
        self.person, self._end = pty.openpty()
        self.name = os.ttyname(self._end)

    def sees(self, text: str, wait_s: float = 5) -> str:
        found, until = "", time.monotonic() + wait_s
        while text not in found and time.monotonic() < until:
            if select.select([self.person], [], [], 0.05)[0]:
                found += os.read(self.person, 65_536).decode()
        assert text in found, found
        return found

    def types(self, text: str) -> None:
        os.write(self.person, text.encode())

    def close(self) -> None:
        os.close(self.person)
        os.close(self._end)


@pytest.fixture
def screen() -> Iterator[Screen]:
    """A terminal of this test's own."""
    made = Screen()
    yield made
    made.close()


@pytest.fixture
def session(bench: Bench) -> AskingSession:
    """A session with a rule, whose calls do not wait long."""
    opened = AskingSession.open(
        SCOPE, workspace=bench.workspace, home=bench.home, outside=bench.outside
    )
    assert isinstance(opened, AskingSession)
    opened.wait_s = 5
    return opened


def asker(
    bench: Bench, session: AskingSession, terminal: AskingTerminal | None, said: list[str]
) -> Asker:
    """Return what asks for a session, begun."""
    mailbox = Mailbox(session.folder, session.sid, bench.key())
    found = Asker(session, mailbox, said.append, terminal)
    found.begin()
    return found


def test_an_answer_at_the_terminal(
    bench: Bench, session: AskingSession, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A typed code lets the call through; keys pressed before, and wrong lines, do nothing."""
    import threading

    terminal = AskingTerminal(screen.name)
    monkeypatch.setattr(terminal, "_in_front", lambda: True)
    screen.types("yes\n" * 3)
    asking = asker(bench, session, terminal, [])
    answers: list[bool] = []
    call = threading.Thread(
        target=lambda: answers.append(session.decide("pay", {"to": "B"}).allowed)
    )
    call.start()
    seen = screen.sees("type `yes ")
    code = seen.split("type `yes ")[1][:6]
    screen.types("what?\n")
    screen.sees("answer with")
    screen.types(f"yes {code} fine\n")
    screen.sees("question 1: yes")
    call.join(5)
    asking.end()
    assert answers == [True]
    assert session.ask is None


def test_an_answer_from_elsewhere(bench: Bench, session: AskingSession) -> None:
    """Without a terminal the question lies in the mailbox, and the answer is taken from there."""
    said: list[str] = []
    asking = asker(bench, session, None, said)
    session.wait_s = 0
    assert not session.decide("pay", {"to": "B"}).allowed
    mailbox = Mailbox(session.folder, session.sid, bench.key())
    until = time.monotonic() + 5
    while not (posted := list(mailbox.posted())) and time.monotonic() < until:
        time.sleep(0.01)
    (one,) = posted
    assert one.pid == os.getpid()
    assert '    to = "B"' in one.lines
    mailbox.answer(1, f"yes {one.code}")
    while mailbox.waits(1) and time.monotonic() < until:
        time.sleep(0.01)
    assert session.decide("pay", {"to": "B"}).allowed
    asking.end()
    assert said[0].startswith("question 1 about `pay`: `broker answer ")
    assert said[1] == "question 1: yes"


def test_what_is_open_at_the_end_is_shown_no_more(bench: Bench, session: AskingSession) -> None:
    """Nothing waits for an answer that nobody would take."""
    asking = asker(bench, session, None, [])
    session.wait_s = 0.5
    session.decide("pay", {"to": "B"})
    asking.end()
    assert list(Mailbox(session.folder, session.sid, bench.key()).posted()) == []
    assert not session.decide("pay", {"to": "C"}).allowed


def test_only_a_session_that_asks_has_somebody_who_asks(
    bench: Bench, session: AskingSession
) -> None:
    """An ordinary session gets none."""
    assert asker_for(bench.open(), bench.home, print) is None
    assert asker_for(session, bench.home, print) is not None


def test_what_is_no_terminal(bench: Bench) -> None:
    """A pipe or a file is not taken for one."""
    with pytest.raises(OSError, match="not a terminal"):
        AskingTerminal(os.devnull)
