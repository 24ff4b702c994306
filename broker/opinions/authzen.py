"""
An opinion of an AuthZEN decision point: Authorization API 1.0, asked over HTTP.

Decided here: how a question is spelled as subject, action, resource and context, and which answer
is a yes. Not decided here: how it gets there (``broker.opinions.web``).

Where the address ends in ``/evaluations``, all questions about a call go in one request. Else each
is one request to ``/evaluation``, one after another, all within one deadline.

Rules a maintainer keeps: a yes is the literal ``true`` in a well-formed answer, once for each
question, and nothing else; what an allow says besides is not read; an answer that has a key twice
is none, since two readers would read two answers.

Source: OpenID AuthZEN, Authorization API 1.0, sections 5 to 7 and 10.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from broker.opinions.opinion import NoAnswerError, Opined, digest
from broker.opinions.question import Consultation, Question
from broker.opinions.web import Web

CALL: Final = "call"  # what is done with a tool, where there is nothing else to be asked about
MAX_REASON_CHARS: Final = 400

Decided = tuple[bool, str]


class AuthZen:
    """
    A decision point.

    Args:
        name: how the configuration calls it.
        web: its address.
        batch: ask all questions about a call at once.
        within_s: seconds for all that is asked about one call.
        bearer: returns the key that is sent with each request, or an empty text; it may change
            while a session runs.
        shows_arguments: hand the call's arguments on.
        clock_s: monotonic seconds.
    """

    def __init__(
        self,
        name: str,
        web: Web,
        *,
        batch: bool,
        within_s: float,
        bearer: Callable[[], str] = str,
        shows_arguments: bool = False,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._web, self._batch, self._within_s = web, batch, within_s
        self._bearer, self._shows = bearer, shows_arguments
        self._clock_s = clock_s

    def ask(self, inquiry: Consultation) -> Opined:
        """Ask all that is to be asked, until one answer is not a yes."""
        sent: list[bytes] = []
        got: list[bytes] = []
        until_s = self._clock_s() + self._within_s
        try:
            headers = {"x-request-id": inquiry.nonce}
            if key := self._bearer():
                headers["authorization"] = f"Bearer {key}"
            allowed, reason = True, ""
            for body, read in self._requests(inquiry):
                sent.append(body)
                got.append(self._web.post(body, headers, until_s - self._clock_s()))
                allowed, reason = read(got[-1])
                if not allowed:
                    break
        except NoAnswerError as error:
            return Opined("none", _digest(sent), _digest(got), fault=str(error))
        return Opined("allow" if allowed else "refuse", _digest(sent), _digest(got), reason)

    def _requests(self, inquiry: Consultation) -> list[tuple[bytes, Callable[[bytes], Decided]]]:
        asked = inquiry.questions
        if self._batch:
            return [(batch(inquiry, shows=self._shows), lambda text: read_batch(text, len(asked)))]
        return [(single(inquiry, each, shows=self._shows), read_single) for each in asked]


def single(inquiry: Consultation, question: Question, *, shows: bool = False) -> bytes:
    """
    Return the body of one evaluation.

    >>> one = Question("read", "path", "src/a.py", {"access": "read"})
    >>> about = Consultation((one,), "main", "k3v", "9f2c", "00", "ab")
    >>> json.loads(single(about, one))["resource"]
    {'id': 'src/a.py', 'properties': {'access': 'read'}, 'type': 'path'}
    """
    return _body({**_common(inquiry, shows=shows), **_parts(question)})


def batch(inquiry: Consultation, *, shows: bool = False) -> bytes:
    """Return the body of all evaluations about a call, each of which is to be answered."""
    return _body(
        {
            **_common(inquiry, shows=shows),
            "evaluations": [_parts(question) for question in inquiry.questions],
            "options": {"evaluations_semantic": "execute_all"},
        }
    )


def read_single(text: bytes) -> Decided:
    """
    Return what an answer decides, and its reason where it is a no.

    Raises:
        NoAnswerError: it decides nothing.

    >>> read_single(b'{"decision": false, "context": {"reason_user": {"en": "not on Sunday"}}}')
    (False, 'not on Sunday')
    """
    return _decided(_read(text))


def read_batch(text: bytes, count: int) -> Decided:
    """
    Return what answers to ``count`` questions decide together: the first no, if there is one.

    Raises:
        NoAnswerError: they decide nothing, or are not as many.
    """
    found = _read(text).get("evaluations")
    if not isinstance(found, list) or len(found) != count:
        raise NoAnswerError(f"it does not answer each of {count} questions")
    decided = [_decided(each) for each in found]
    return next((each for each in decided if not each[0]), (True, ""))


def _common(inquiry: Consultation, *, shows: bool) -> dict[str, Any]:
    context: dict[str, Any] = {
        "session": inquiry.session,
        "ticket_id": inquiry.ticket,
        "arguments_digest": inquiry.digest,
        "request": inquiry.nonce,
    }
    if shows:
        context["arguments"] = dict(inquiry.arguments)
    return {"subject": {"type": "agent", "id": inquiry.actor}, "context": context}


def _parts(question: Question) -> dict[str, Any]:
    resource: dict[str, Any] = {"type": question.kind, "id": question.name}
    if question.kind == "tool":
        # As our own service reads it: nothing is an argument that the call does not have.
        if question.server:
            resource["properties"] = {"server": question.server}
        return {"action": {"name": CALL}, "resource": resource}
    action: dict[str, Any] = {"name": question.tool}
    if question.server:
        action["properties"] = {"server": question.server}
    if question.more:
        resource["properties"] = dict(question.more)
    return {"action": action, "resource": resource}


def _body(value: Mapping[str, object]) -> bytes:
    # What is not Unicode is spelled out: another's parser may refuse it, which refuses the call.
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _decided(answer: object) -> Decided:
    decision = answer.get("decision") if isinstance(answer, dict) else None
    if decision is True:
        return True, ""
    if decision is not False or not isinstance(answer, dict):
        raise NoAnswerError("its answer has no `decision` that is true or false")
    return False, _reason(answer.get("context"))


def _reason(context: object) -> str:
    """Return what an answer says to the user, in English where it speaks several languages."""
    if not isinstance(context, dict):
        return ""
    said = context.get("reason_user", context.get("reason", ""))
    if isinstance(said, dict):
        spoken = sorted(said.items(), key=lambda each: not str(each[0]).startswith("en"))
        said = next((text for _, text in spoken if isinstance(text, str)), "")
    return " ".join(said.split())[:MAX_REASON_CHARS] if isinstance(said, str) else ""


def _read(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text.decode(), object_pairs_hook=_once, parse_constant=_no_constant)
    except NoAnswerError:
        raise
    except (ValueError, RecursionError) as error:
        raise NoAnswerError("its answer is no JSON") from error
    if not isinstance(found, dict):
        raise NoAnswerError("its answer is no JSON object")
    return found


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NoAnswerError("its answer says one thing twice")
    return found


def _no_constant(name: str) -> None:
    raise NoAnswerError(f"its answer has `{name}` in it, which is no JSON")


def _digest(parts: Sequence[bytes]) -> str:
    return digest(parts) if parts else ""
