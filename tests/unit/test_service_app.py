"""The service's requests, answered in this process: AuthZEN's, health, and who may ask."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from broker.errors import AttenuationError, InputError, StoreError, TicketVerificationError
from broker.service.app import status_of
from tests.servekit import CALL, OPERATOR, Inside, inside
from tests.sessionkit import Bench, bench

__all__ = ["bench"]

EVALUATION = "/access/v1/evaluation"
EVALUATIONS = "/access/v1/evaluations"


@pytest.fixture
def pdp(bench: Bench) -> Iterator[Inside]:
    """A service in this process."""
    made = inside(bench)
    yield made
    made.hosted.seal()
    made.loop.close()


def test_an_evaluation_is_decided_and_recorded(pdp: Inside) -> None:
    """A subject's own ticket answers, and the decision stands in the receipt with its actor."""
    heard = pdp.ask(EVALUATION, CALL, headers={"x-request-id": "r-1"})
    assert (heard.status, heard.json()["decision"]) == (200, True)
    assert heard.headers["x-request-id"] == "r-1"
    assert heard.headers["cache-control"] == "no-store"
    decisions = [data for kind, data in pdp.entries() if kind == "decision"]
    assert [(d["actor"], d["tool"], d["call"]) for d in decisions] == [
        ("user:ana", "can_read", "r-1")
    ]


def test_a_refusal_names_its_caveat(pdp: Inside) -> None:
    """Whoever asks is told the caveat, the value and what to do."""
    other = {"type": "todo", "id": "7", "properties": {"owner": "ben"}}
    body = {**CALL, "action": {"name": "can_update"}, "resource": other}
    context = pdp.ask(EVALUATION, body).json()["context"]
    assert (context["caveat"], context["value"]) == ("tools", "owner")
    assert '"ben" is not "ana"' in context["reason"]


def test_who_has_no_ticket_is_refused_and_that_is_recorded(pdp: Inside) -> None:
    """A subject that nobody named is refused, whatever it asks, and so is one spelled otherwise."""
    for kind, name in (("user", "ben"), ("user", "Ana"), ("user:ana", "x"), ("agent", "ana")):
        heard = pdp.ask(EVALUATION, {**CALL, "subject": {"type": kind, "id": name}}).json()
        assert (heard["decision"], heard["context"]["caveat"]) == (False, "subject")
    refused = [data for kind, data in pdp.entries() if kind == "decision"]
    assert [data["caveat"] for data in refused] == ["subject"] * 4


@pytest.mark.parametrize(
    ("semantic", "wanted"),
    [
        ("execute_all", [True, False, False, True]),
        ("deny_on_first_deny", [True, False]),
        ("permit_on_first_permit", [True]),
    ],
)
def test_the_three_semantics(pdp: Inside, semantic: str, wanted: list[bool]) -> None:
    """Each stops where it should, and what comes after is neither asked nor recorded."""
    body = {
        **CALL,
        "options": {"evaluations_semantic": semantic},
        "evaluations": [{}, {"action": {"name": "can_delete"}}, {"resource": 3}, {}],
    }
    heard = pdp.ask(EVALUATIONS, body).json()
    assert [each["decision"] for each in heard["evaluations"]] == wanted
    if len(wanted) > 2:
        assert heard["evaluations"][2]["context"]["error"]["status"] == 400
    recorded = [data for kind, data in pdp.entries() if kind == "decision"]
    readable = len(wanted) - (len(wanted) > 2)
    assert len(recorded) == readable


def test_one_that_cannot_be_read_stops_at_the_first_denial(pdp: Inside) -> None:
    """An error counts as a denial to the semantic that stops at one."""
    body = {
        **CALL,
        "options": {"evaluations_semantic": "deny_on_first_deny"},
        "evaluations": [{"resource": 3}, {}],
    }
    assert len(pdp.ask(EVALUATIONS, body).json()["evaluations"]) == 1


def test_several_without_evaluations_is_one(pdp: Inside) -> None:
    """A request without the key is answered like a single evaluation."""
    assert pdp.ask(EVALUATIONS, CALL).json() == pdp.ask(EVALUATION, CALL).json()


def test_who_may_ask(pdp: Inside) -> None:
    """Health is for all, everything else for known keys, and a wrong one never counts as none."""
    assert pdp.ask("/healthz", key="").status == 200
    assert pdp.ask("/readyz", key="").status == 200
    for path, body in ((EVALUATION, CALL), ("/metrics", None), ("/openapi.json", None)):
        heard = pdp.ask(path, body, key="")
        assert (heard.status, heard.headers["www-authenticate"]) == (401, "Bearer")
        assert pdp.ask(path, body, key="x" * 40).status == 401
    pdp.local = True
    assert pdp.ask(EVALUATION, CALL, key="").json()["decision"] is True
    assert pdp.ask(EVALUATION, CALL, key="x" * 40).status == 401
    assert pdp.ask("/v1/mint", {"scope": ["calls=1"], "line": "x"}, key="").status == 403
    assert pdp.ask("/v1/mint", {"scope": ["calls=1"], "line": "x"}, key=OPERATOR).status == 201


def test_what_is_no_request_of_ours(pdp: Inside) -> None:
    """Unknown paths, methods, types and malformed bodies are told apart, each as JSON."""
    assert pdp.ask("/access/v1/search/subject", CALL).status == 404
    wrong = pdp.ask(EVALUATION, method="GET")
    assert (wrong.status, wrong.headers["allow"]) == (405, "POST")
    assert pdp.ask(EVALUATION, CALL, headers={"content-type": "text/plain"}).status == 415
    assert pdp.ask(EVALUATION, CALL, headers={"content-encoding": "gzip"}).status == 415
    for raw in (b"", b"{", b"[]", b'{"a":1,"a":2}', b'{"a":NaN}', b"\xff", b"[" * 100_000):
        heard = pdp.ask(EVALUATION, raw=raw)
        assert (heard.status, heard.json()["error"]["code"]) == (400, "input.json")
    too_long = pdp.ask(EVALUATION, raw=b" " * (2**20 + 1))
    assert (too_long.status, too_long.headers["connection"]) == (413, "close")


def test_what_clients_learn_first(pdp: Inside) -> None:
    """The metadata names the endpoints, and each of them is there."""
    found = pdp.ask("/.well-known/authzen-configuration").json()
    base = found.pop("policy_decision_point")
    assert base == "http://pdp.test"
    for address in found.values():
        assert pdp.ask(address.removeprefix(base), CALL).status == 200


def test_not_ready_once_nothing_is_decided(pdp: Inside) -> None:
    """A service that ends, or whose session is over, says that it is not ready, and refuses."""
    pdp.hosted.own.session.seal()
    assert pdp.ask("/readyz", key="").status == 503
    assert pdp.ask("/healthz", key="").status == 200
    heard = pdp.ask(EVALUATION, CALL).json()
    assert (heard["decision"], heard["context"]["caveat"]) == (False, "session")


def test_metrics_and_log_tell_no_secret(pdp: Inside) -> None:
    """Decisions are counted by caveat, errors are logged, and nothing a caller made up is shown."""
    pdp.ask(EVALUATION, CALL)
    pdp.ask(EVALUATION, {**CALL, "subject": {"type": "user", "id": "nobody-knows"}})
    pdp.ask("/nobody-knows", CALL)
    text = pdp.ask("/metrics").body.decode()
    assert 'broker_decisions_total{caveat="",decision="allow"} 1.0' in text
    assert 'broker_decisions_total{caveat="subject",decision="refuse"} 1.0' in text
    assert 'path="unknown",status="404"' in text
    events = [json.loads(line) for line in pdp.log.getvalue().splitlines()]
    assert [(e["event"], e["status"], e["by"]) for e in events] == [("answered", 404, "pep")]
    assert "nobody-knows" not in text + pdp.log.getvalue()


def test_how_errors_are_answered() -> None:
    """What the client can mend is a 4xx, and what only the service can is a 5xx."""
    wanted = {
        403: [AttenuationError("x", kind="tools"), TicketVerificationError("x")],
        400: [InputError("x")],
        404: [InputError("x", code="session")],
        503: [StoreError("x")],
    }
    assert {s: [status_of(e) for e in es] for s, es in wanted.items()} == {
        s: [s] * len(es) for s, es in wanted.items()
    }
