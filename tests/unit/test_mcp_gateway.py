"""What becomes of each message between a client and a server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.mcp import methods
from broker.mcp.gateway import MAX_ASKED, Gateway
from broker.mcp.messages import REFUSED, read_message
from tests.mcpkit import Yes, answer, call, gateway, said

LOOK, DROP = "mcp__notes__look", "mcp__notes__drop"


def error(raw: bytes | None) -> dict[str, Any]:
    """Return the error of an answer."""
    assert raw is not None
    found = json.loads(raw)["error"]
    assert isinstance(found, dict)
    return found


# ── from the client ──


def test_an_allowed_call_goes_on_as_it_came() -> None:
    """The bytes are the client's own, and the session was asked under our name of the server."""
    session = Yes(LOOK)
    raw = call(1, "look", path="a")
    ruling = gateway(session).from_client(raw)
    assert (ruling.onward, ruling.back) == (raw, None)
    assert session.asked == [(LOOK, {"path": "a"})]


def test_a_refused_call_is_a_result_that_the_model_reads() -> None:
    """Nothing goes on, and the answer is a tool's error with the caveat in it."""
    ruling = gateway(Yes(LOOK)).from_client(call(1, "drop"))
    assert ruling.onward is None
    assert ruling.back is not None
    told = json.loads(ruling.back)
    assert told["id"] == 1
    assert told["result"]["isError"] is True
    assert "refused by `tools`" in told["result"]["content"][0]["text"]


def test_a_refused_call_that_wants_a_task_gets_an_error() -> None:
    """A task cannot be made of a refusal, so the protocol's own error says it."""
    raw = said("tools/call", 1, name="drop", arguments={}, task={"ttl": 1})
    assert error(gateway(Yes(LOOK)).from_client(raw).back)["code"] == REFUSED


@pytest.mark.parametrize("method", sorted(methods.ASKED_HARMLESSLY))
def test_what_cannot_act_goes_on_unasked(method: str) -> None:
    """No decision is made, so nothing is debited."""
    session = Yes("nothing")
    raw = said(method, 1)
    assert gateway(session).from_client(raw).onward == raw
    assert session.asked == []


@pytest.mark.parametrize(
    "method",
    ["resources/read", "resources/subscribe", "prompts/get", "completion/complete", "tasks/list",
     "tasks/get", "tasks/result", "tasks/cancel", "vendor/do", "sampling/createMessage"],
)  # fmt: skip
def test_whatever_else_is_asked_is_decided(method: str) -> None:
    """It goes on where the session allows the method's name, and is refused elsewhere."""
    raw = said(method, 1, uri="a:b", taskId="t1")
    assert gateway(Yes(f"mcp__notes__{method}")).from_client(raw).onward == raw
    ruling = gateway(Yes(LOOK)).from_client(raw)
    assert ruling.onward is None
    assert error(ruling.back)["code"] == REFUSED


def test_a_notification_is_held_too() -> None:
    """One that is known goes on; any other is decided, and dropped in silence."""
    known, strange = said("notifications/initialized"), said("notifications/do", x=1)
    assert gateway(Yes(LOOK)).from_client(known).onward == known
    refused = gateway(Yes(LOOK)).from_client(strange)
    assert (refused.onward, refused.back) == (None, None)
    assert gateway(Yes()).from_client(strange).onward == strange


def test_a_call_without_an_id_is_decided_and_never_answered() -> None:
    """A tool call as a notification does not slip by."""
    raw = said("tools/call", name="drop", arguments={})
    ruling = gateway(Yes(LOOK)).from_client(raw)
    assert (ruling.onward, ruling.back) == (None, None)


def test_what_cannot_be_read_comes_back() -> None:
    """Nothing goes on, and the client is told, without an id."""
    for raw in (b"{", b"[]", b"\xff", b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]'):
        ruling = gateway(Yes()).from_client(raw)
        assert ruling.onward is None
        assert ruling.back is not None
        assert json.loads(ruling.back)["id"] is None


def test_an_id_in_use_is_refused_and_may_be_used_again_after_its_answer() -> None:
    """Two open requests with one id would be answered by each other's answers."""
    held = gateway(Yes())
    assert held.from_client(said("tools/list", 1)).onward
    assert held.from_client(call(1, "look")).onward is None
    assert held.from_client(call("1", "look")).onward  # a text is another id than a number
    held.from_server(answer(1, tools=[]))
    assert held.from_client(call(1, "look")).onward


def test_so_many_requests_may_wait() -> None:
    """One more than the ceiling is refused; a refused one takes no room."""
    held = gateway(Yes(LOOK))
    for n in range(MAX_ASKED):
        assert held.from_client(said("ping", n)).onward
        held.from_client(call(f"r{n}", "drop"))
    assert held.from_client(said("ping", MAX_ASKED)).onward is None


# ── from the server ──


def test_a_list_shows_what_could_be_allowed() -> None:
    """The rest is gone, and everything else of the answer stays."""
    held = gateway(Yes(), "tools=mcp__notes__look")
    held.from_client(said("tools/list", 1))
    tools = [{"name": "look", "x": 1}, {"name": "drop"}, {"no": "name"}, "odd", {"name": 7}]
    told = held.from_server(answer(1, tools=tools, nextCursor="c")).onward
    assert told is not None
    assert json.loads(told)["result"] == {"tools": [{"name": "look", "x": 1}], "nextCursor": "c"}


def test_a_list_that_loses_nothing_goes_on_as_it_came() -> None:
    """The bytes are the server's own."""
    held = gateway(Yes())
    held.from_client(said("tools/list", 1))
    raw = b'{"result": {"tools":[{"name":"look"}]}, "id":1, "jsonrpc":"2.0"}'
    assert held.from_server(raw).onward == raw


@pytest.mark.parametrize(
    ("method", "key", "tool"),
    [
        ("resources/list", "resources", "resources/read"),
        ("resources/templates/list", "resourceTemplates", "resources/read"),
        ("prompts/list", "prompts", "prompts/get"),
    ],
)
def test_resources_and_prompts_are_shown_if_they_could_be_had(
    method: str, key: str, tool: str
) -> None:
    """A ticket that names the method shows them; another shows an empty list."""
    for scope, left in ((f"tools=mcp__notes__{tool}", 1), ("tools=Read", 0)):
        held = gateway(Yes(), scope)
        held.from_client(said(method, 1))
        told = held.from_server(answer(1, **{key: [{"name": "a", "uri": "a:b"}]})).onward
        assert told is not None
        assert len(json.loads(told)["result"][key]) == left


def test_annotations_are_recorded_and_change_nothing() -> None:
    """What a server says of its tools is noted once, and a `readOnlyHint` shows no tool."""
    session = Yes()
    held = gateway(session, "paths=src/**")
    tools = [{"name": "drop", "annotations": {"readOnlyHint": True, "title": "Harmless"}}]
    for n in (1, 2):
        held.from_client(said("tools/list", n))
        told = held.from_server(answer(n, tools=tools)).onward
        assert told is not None
        assert json.loads(told)["result"]["tools"] == []
    assert len(session.notes) == 1
    assert "1 tools, 0 shown" in session.notes[0]
    assert "drop (readOnly)" in session.notes[0]


def test_results_are_recorded_once() -> None:
    """A good end, a tool's error and an error of the protocol are told apart."""
    session = Yes()
    held = gateway(session)
    for n in (1, 2, 3):
        held.from_client(call(n, "look"))
    held.from_server(answer(1, content=[]))
    held.from_server(answer(2, content=[], isError=True))
    held.from_server(b'{"jsonrpc":"2.0","id":3,"error":{"code":-1,"message":"no"}}')
    again = held.from_server(answer(1, content=[]))
    assert again.onward  # sent again when a stream is resumed
    assert session.results == [("t:1", True), ("t:2", False), ("t:3", False)]


def test_an_answer_that_nobody_asked_for_is_dropped() -> None:
    """Neither a made-up id nor the id of a refused call brings anything to the client."""
    held = gateway(Yes(LOOK))
    held.from_client(call(1, "drop"))
    for ident in (1, 2, "x"):
        assert held.from_server(answer(ident, content=[])).onward is None


def test_a_cancelled_list_is_still_filtered() -> None:
    """An answer that comes too late is taken apart by what was asked."""
    held = gateway(Yes(), "tools=Read")
    held.from_client(said("tools/list", 1))
    cancel = said("notifications/cancelled", requestId=1)
    assert held.from_client(cancel).onward == cancel
    told = held.from_server(answer(1, tools=[{"name": "look"}])).onward
    assert told is not None
    assert json.loads(told)["result"]["tools"] == []


def test_cancelling_names_an_id_or_nothing() -> None:
    """An id of another type cancels nothing and breaks nothing."""
    held = gateway(Yes())
    held.from_client(said("ping", 1))
    for ident in ([1], {"a": 1}, None, True, 2.5):
        held.from_client(said("notifications/cancelled", requestId=ident))
        held.from_server(said("notifications/cancelled", requestId=ident))
        assert held.waits(1)


@pytest.mark.parametrize("method", ["sampling/createMessage", "elicitation/create", "vendor/ask"])
def test_a_server_that_asks_its_client_is_decided(method: str) -> None:
    """Where it may not, the server gets an error and the client hears nothing."""
    raw = said(method, 5, messages=[])
    ruling = gateway(Yes(LOOK)).from_server(raw)
    assert ruling.onward is None
    assert error(ruling.back)["code"] == REFUSED
    held = gateway(Yes(f"mcp__notes__{method}"))
    assert held.from_server(raw).onward == raw
    told = answer(5, content={})
    assert held.from_client(told).onward == told
    assert held.from_client(told).onward is None  # one answer for one question


def test_a_client_answers_only_what_was_asked() -> None:
    """An answer to a question that was refused, or never put, does not reach the server."""
    held = gateway(Yes(LOOK))
    held.from_server(said("sampling/createMessage", 5))
    assert held.from_client(answer(5)).onward is None
    assert held.from_client(answer(6)).onward is None


def test_a_server_says_what_is_known_and_nothing_else() -> None:
    """A notification that a client might show its model is decided like a call."""
    known = said("notifications/message", level="info", data="x")
    strange = said("notifications/vendor/channel", content="do this")
    held = gateway(Yes(LOOK))
    assert held.from_server(known).onward == known
    assert held.from_server(strange).onward is None
    assert gateway(Yes()).from_server(strange).onward == strange


@pytest.mark.parametrize(
    "questions",
    [
        {"q": {"method": "sampling/createMessage", "params": {}}},
        {"r": {"method": "roots/list"}, "q": {"method": "elicitation/create", "params": {}}},
        {"q": {"method": "vendor/ask"}},
        {"q": {"method": ""}},
        {"q": {}},
        {"q": "odd"},
        ["odd"],
        "odd",
    ],
)
def test_a_question_inside_a_result_is_decided(questions: object) -> None:
    """Newer servers ask by their answers; where they may not, the client gets an error."""
    held = gateway(Yes(LOOK))
    held.from_client(call(1, "look"))
    told = held.from_server(answer(1, resultType="input_required", inputRequests=questions))
    assert error(told.onward)["code"] == REFUSED
    news = said("notifications/tasks/status", inputRequests=questions)
    assert held.from_server(news).onward is None


def test_a_question_that_may_be_asked_goes_on() -> None:
    """Under a ticket that names it, and where it cannot act."""
    for allowed, method in (("elicitation/create",) * 2, ("x", "roots/list")):
        held = gateway(Yes(LOOK, f"mcp__notes__{allowed}"))
        held.from_client(call(1, "look"))
        raw = answer(1, inputRequests={"q": {"method": method, "params": {}}})
        assert held.from_server(raw).onward == raw


def test_hearing_of_changes_is_harmless_and_watching_a_resource_is_not() -> None:
    """What a subscription is for decides whether it is a call."""
    held = gateway(Yes(LOOK))
    listen = said("subscriptions/listen", 1, notifications={"toolsListChanged": True})
    assert held.from_client(listen).onward == listen
    watch = said("subscriptions/listen", 2, notifications={"resourceSubscriptions": ["a:b"]})
    assert held.from_client(watch).onward is None
    assert held.from_client(said("subscriptions/listen", 3, more=1)).onward is None


def test_a_task_is_followed_by_whoever_made_it() -> None:
    """Its id goes on undecided; another's id is decided."""
    held = gateway(Yes(LOOK))
    held.from_client(said("tools/call", 1, name="look", arguments={}, task={}))
    held.from_server(answer(1, task={"taskId": "t1"}))
    assert held.from_client(said("tasks/result", 2, taskId="t1")).onward
    assert held.from_client(said("tasks/result", 3, taskId="t2")).onward is None
    assert held.from_client(said("tasks/result", 4, taskId=["t1"])).onward is None


def test_a_server_that_goes_leaves_nobody_waiting() -> None:
    """Every open request is answered with an error, once."""
    held = gateway(Yes())
    held.from_client(call(1, "look"))
    held.from_client(said("ping", "a"))
    assert {json.loads(raw)["id"] for raw in held.deserted()} == {1, "a"}
    assert held.deserted() == []


def test_a_server_cannot_break_the_gateway() -> None:
    """An answer to a call before it was decided is dropped or goes on, and nothing raises."""
    held = gateway(Early())
    ruling = held.from_client(call(1, "drop"))
    assert ruling.onward is None
    assert ruling.back is not None


class Early(Yes):
    """Refuses, and lets a server answer meanwhile what was not sent to it."""

    def decide(self, tool: object, arguments: object, **more: Any) -> Any:
        """Refuse after the server has spoken."""
        self.allowed = ("nothing",)
        return super().decide(tool, arguments, **more)


# ── laws ──

METHODS = st.sampled_from(
    [methods.CALL, *sorted(methods.ASKED_HARMLESSLY), *sorted(methods.TOLD_HARMLESSLY),
     *sorted(methods.OF_TASKS), "resources/read", "prompts/get", "x", "sampling/createMessage"]
)  # fmt: skip
IDS = st.none() | st.integers(0, 3) | st.sampled_from(["a", "1", "", "\u0000"])
VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.text())
PARAMS = st.dictionaries(
    st.sampled_from(["name", "arguments", "uri", "taskId", "task", "requestId", "_meta", "Name"]),
    VALUES | st.dictionaries(st.text(max_size=4), VALUES, max_size=3),
    max_size=4,
)
MESSAGES = st.builds(
    lambda method, ident, params: said(method, ident, **params), METHODS, IDS, PARAMS
) | st.builds(lambda ident: answer(ident, content=[]), IDS)
CUT = st.builds(lambda raw, at: raw[:at] + raw[at + 1 :], MESSAGES, st.integers(0, 80))


@given(st.lists(st.tuples(st.booleans(), MESSAGES | CUT | st.binary(max_size=30)), max_size=12))
def test_nothing_that_acts_goes_on_under_a_session_that_refuses(
    conversation: list[tuple[bool, bytes]],
) -> None:
    """Whatever both ends say, in any order, only what cannot act reaches the other end."""
    held = gateway(Yes("nothing at all"), "tools=none")
    for from_client, raw in conversation:
        ruling = held.from_client(raw) if from_client else held.from_server(raw)
        if ruling.onward is None:
            continue
        message = read_message(ruling.onward)
        if message.kind == "response":
            continue
        asked = message.kind == "request"
        allowed = {
            (True, True): methods.ASKED_HARMLESSLY,
            (True, False): methods.TOLD_HARMLESSLY,
            (False, True): methods.ASKED_BACK_HARMLESSLY,
            (False, False): methods.TOLD_BACK_HARMLESSLY,
        }[from_client, asked]
        assert message.method in allowed


@given(st.lists(st.tuples(st.booleans(), MESSAGES | CUT), max_size=12))
def test_everything_goes_on_untouched_under_an_open_ticket(
    conversation: list[tuple[bool, bytes]],
) -> None:
    """What goes on is what came, whenever nothing is refused."""
    held = gateway(Yes())
    for from_client, raw in conversation:
        ruling = held.from_client(raw) if from_client else held.from_server(raw)
        assert ruling.onward in (None, raw)


@given(st.lists(MESSAGES | CUT | st.binary(max_size=30), max_size=12))
def test_every_request_is_passed_on_or_answered(conversation: list[bytes]) -> None:
    """No client waits for something that nobody was asked."""
    held = gateway(Yes(LOOK))
    for raw in conversation:
        ruling = held.from_client(raw)
        assert ruling.onward is None or ruling.back is None
        try:
            message = read_message(raw)
        except ValueError:
            assert ruling.back is not None
            continue
        if message.kind == "request":
            assert (ruling.onward or ruling.back) is not None


def test_a_gateway_is_safe_among_threads() -> None:
    """Many clients' threads ask at once, and every call has an id of its own."""
    from concurrent.futures import ThreadPoolExecutor

    session = Yes()
    held: Gateway = gateway(session)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: held.from_client(call(n, "look")), range(200)))
        list(pool.map(lambda n: held.from_server(answer(n, content=[])), range(200)))
    assert len({call_id for call_id, _ in session.results}) == 200
