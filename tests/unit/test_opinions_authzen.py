"""An AuthZEN decision point: what it is asked, and that only a whole yes is a yes."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.calls import Call
from broker.opinions.authzen import AuthZen, batch, read_batch, read_single, single
from broker.opinions.opinion import NoAnswerError, digest
from broker.opinions.web import Web
from tests.pdpkit import DecisionPoint, Odd, Rule, about, path
from tests.servekit import EVALUATOR, served

TWO = Call("edit", "git", (path("src/a.py", "write"), path("b")), digest="ab")


def _opinion(url: str, **more: Any) -> AuthZen:
    given = {"within_s": 2.0, "batch": url.endswith("s"), **more}
    return AuthZen("corp", Web(url), **given)


def test_what_one_evaluation_says() -> None:
    """Subject, action, resource and context are each what the documentation says."""
    inquiry = about(TWO)
    assert json.loads(single(inquiry, inquiry.questions[0])) == {
        "subject": {"type": "agent", "id": "main"},
        "action": {"name": "edit", "properties": {"server": "git"}},
        "resource": {
            "type": "path",
            "id": "src/a.py",
            "properties": {"access": "write", "below": False, "outside": False},
        },
        "context": {
            "session": "k3v",
            "ticket_id": "9f2c",
            "arguments_digest": "ab",
            "request": "ab" * 16,
        },
    }
    assert [each["resource"]["id"] for each in json.loads(batch(inquiry))["evaluations"]] == [
        "src/a.py",
        "b",
    ]


def test_arguments_are_handed_on_only_where_told() -> None:
    """A decision point sees a call's arguments only where the person says so."""
    inquiry = about(Call("think", arguments={"thought": "secret"}))
    (question,) = inquiry.questions
    assert b"secret" not in single(inquiry, question)
    assert b"secret" not in batch(inquiry)
    assert b"secret" in single(inquiry, question, shows=True)


@pytest.mark.parametrize("ending", ["evaluation", "evaluations"])
def test_every_question_must_be_allowed(ending: str) -> None:
    """One path that is not allowed refuses the call, one request for each or one for all."""
    allowed = {"src/a.py"}

    def rule(evaluation: dict[str, Any]) -> object:
        if evaluation["resource"]["id"] in allowed:
            return True
        return {"decision": False, "context": {"reason_user": {"de": "nein", "en": "not b"}}}

    with DecisionPoint(rule) as point:
        opinion = _opinion(f"{point.base}/{ending}")
        answer = opinion.ask(about(TWO))
        assert (answer.said, answer.reason) == ("refuse", "not b")
        assert answer.asked == digest(point.bodies)
        assert answer.answered == digest(point.answers)
        allowed.add("b")
        assert opinion.ask(about(TWO)).said == "allow"
        assert len(point.bodies) == (2 if ending == "evaluations" else 4)


def test_a_key_goes_along_and_no_other() -> None:
    """The key is sent with each request, as it is at that moment; so is the request's name."""
    keys = ["one", "two", ""]
    with DecisionPoint(lambda _: True) as point:
        opinion = _opinion(point.url, bearer=lambda: keys.pop(0))
        for _ in range(3):
            assert opinion.ask(about(Call("think"))).said == "allow"
    sent = [each.get("authorization") for each in point.headers]
    assert sent == ["Bearer one", "Bearer two", None]
    assert point.headers[0]["x-request-id"] == "ab" * 16


def test_a_key_that_is_gone_is_no_answer() -> None:
    """Where the key cannot be read nobody is asked without it."""

    def gone() -> str:
        raise NoAnswerError("there is no key at `x`")

    with DecisionPoint(lambda _: True) as point:
        answer = _opinion(point.url, bearer=gone).ask(about(Call("think")))
        assert (answer.said, answer.fault, point.asked) == ("none", "there is no key at `x`", [])


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[]",
        b"{}",
        b"null",
        b"true",
        b'{"decision": "true"}',
        b'{"decision": 1}',
        b'{"decision": null}',
        b'{"Decision": true}',
        b'{"decision": false, "decision": true}',
        b'{"decision": true, "context": {"a": 1, "a": 2}}',
        b'{"decision": true, "x": NaN}',
        b'{"decision": true} {}',
        b'{"decision": true',
        b"\xff\xfe{}",
        b'{"evaluations": [{"decision": true}]}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_decision(answer: bytes) -> None:
    """Whatever is not an object with one literal decision is no answer."""
    with pytest.raises(NoAnswerError):
        read_single(answer)
    with DecisionPoint(lambda _: answer) as point:
        said = _opinion(point.url).ask(about(Call("think")))
        assert said.said == "none"
        assert said.fault


@pytest.mark.parametrize(
    "answers",
    [[], [True], [True, True, True], "x", [True, "true"], [True, None], {"0": True, "1": True}],
)
def test_answers_that_do_not_match_the_questions(answers: object) -> None:
    """Fewer answers, more, or one that decides nothing: no answer."""
    found = [{"decision": a} for a in answers] if isinstance(answers, list) else answers
    with pytest.raises(NoAnswerError):
        read_batch(json.dumps({"evaluations": found}).encode(), 2)


@given(st.lists(st.booleans(), min_size=1, max_size=5))
def test_all_answers_of_a_batch_count(decisions: list[bool]) -> None:
    """A batch is a yes exactly when each of its answers is."""
    text = json.dumps({"evaluations": [{"decision": each} for each in decisions]}).encode()
    assert read_batch(text, len(decisions))[0] == all(decisions)


@pytest.mark.parametrize(
    ("context", "reason"),
    [
        ({"reason_user": "a  b\nc"}, "a b c"),
        ({"reason_user": {"de": "nein", "en-US": "no"}}, "no"),
        ({"reason": "why"}, "why"),
        ({"reason_admin": {"en": "rule 17 of the secret file"}}, ""),
        ({"reason_user": 5}, ""),
        ({"reason_user": {"en": ["x"]}}, ""),
        ("x", ""),
        (None, ""),
    ],
)
def test_the_reason_is_the_users(context: object, reason: str) -> None:
    """A refusal says what it says to the user; what is for an administrator stays there."""
    text = json.dumps({"decision": False, "context": context}).encode()
    assert read_single(text) == (False, reason)


def test_a_long_reason_is_cut() -> None:
    """A decision point cannot fill a model's context."""
    text = json.dumps({"decision": False, "context": {"reason": "x" * 9_999}}).encode()
    assert len(read_single(text)[1]) == 400


def test_one_deadline_for_all_questions() -> None:
    """Many slow answers, each in time, do not add up beyond the deadline."""

    def slow(_: object) -> bool:
        time.sleep(0.1)
        return True

    rule: Rule = slow
    many = Call("read", paths=tuple(path(str(n)) for n in range(50)))
    with DecisionPoint(rule) as point:
        before = time.monotonic()
        answer = _opinion(point.url, within_s=0.3).ask(about(many))
        assert (answer.said, time.monotonic() - before < 1.0) == ("none", True)
        assert "time" in answer.fault


def test_what_leads_elsewhere_is_not_followed() -> None:
    """A yes behind a redirect is no answer, and its server is not met."""
    with DecisionPoint(lambda _: True) as elsewhere:

        def redirect(connection: socket.socket) -> None:
            connection.recv(65536)
            head = f"HTTP/1.1 307 Go\r\nlocation: {elsewhere.url}\r\ncontent-length: 0\r\n\r\n"
            connection.sendall(head.encode())

        with Odd(redirect) as server:
            answer = _opinion(server.url).ask(about(Call("think")))
        assert (answer.said, elsewhere.asked) == ("none", [])
        assert "redirect" in answer.fault


def test_our_own_service_can_be_the_decision_point(tmp_path: Path) -> None:
    """A `broker serve` in another process answers by its own ticket, one question or several."""
    key = tmp_path / "bearer"
    subjects = """[[ticket]]\nfor = ["agent:main"]\nscope = ["tools=edit,think"]\n"""
    with served(tmp_path, subjects=subjects) as service:
        base = f"http://127.0.0.1:{service.port}/access/v1"
        key.write_text(EVALUATOR, encoding="utf-8")
        for ending in ("evaluation", "evaluations"):
            opinion = _opinion(f"{base}/{ending}", bearer=key.read_text, within_s=9.0)
            said = [opinion.ask(about(call)) for call in (TWO, Call("think"), Call("read"))]
            assert [(each.said, each.fault) for each in said] == [
                ("allow", ""),
                ("allow", ""),
                ("refuse", ""),
            ]
            assert "tool `read` is not in tools" in said[2].reason
        key.write_text("x" * 40, encoding="utf-8")
        assert "status 401" in opinion.ask(about(TWO)).fault
