"""What a session writes into its receipt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.authorize import authorize
from broker.calls import ALLOW, Call, Decision, PathSubject, Refusal, UrlSubject
from broker.caveats import calls, tools
from broker.errors import Break
from broker.intent import Intent
from broker.limits import MAX_SUBJECTS_KEPT, MAX_TEXT_CHARS
from broker.receipt.entry import encode_data
from broker.scope import parse_scope
from broker.sessions.records import (
    decision_data,
    delegation_data,
    intent_data,
    opening_data,
    recorded_ticket,
    refused_delegation_data,
    subjects,
    ticket_data,
    told,
)
from broker.ticket import attenuate, mint

KEY = bytes(range(32))
INSIDE = PathSubject("path", "./src/a.py", "write", ("src/a.py/",), "/ws/src/a.py")
OUTSIDE = PathSubject("path", "../x", "read", (), "/x")
URL = UrlSubject("url", "https://u:p@h/secret?k=v", "https", "h", 443, ("h", "h:443"))


def test_a_decision_tells_what_it_touched() -> None:
    """Tool, digest, subjects, ticket, answer and actor are kept, and nothing of the arguments."""
    call = Call("edit", paths=(INSIDE, OUTSIDE), urls=(URL,), digest="d" * 64)
    data = decision_data(call, ALLOW, call_id="c1", ticket="t" * 16, actor="main")
    assert data == {
        "call": "c1",
        "tool": "edit",
        "args": "d" * 64,
        "subjects": [
            {"path": "src/a.py", "access": "write"},
            {"path": "/x", "access": "read", "outside": True},
            {"url": "https://h:443"},
        ],
        "ticket": "t" * 16,
        "decision": "allow",
        "enforcement": "gate",
        "actor": "main",
    }


def test_only_what_is_kept_of_a_huge_call_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The subjects that are only counted, in inner calls too, are not spelled out for it."""
    spelled: list[str] = []

    def count(text: str, limit: int = MAX_TEXT_CHARS) -> str:
        spelled.append(text[:limit])
        return text

    monkeypatch.setattr("broker.sessions.records.told", count)
    inner = Call("x", paths=(INSIDE,) * 3, command="ls", nested=(Call("y", urls=(URL,) * 4),))
    call = Call("edit", paths=(INSIDE,) * 500, urls=(URL,) * 2, nested=(inner,) * 2)
    kept = subjects(call)
    assert len(kept) == MAX_SUBJECTS_KEPT + 1
    assert kept[-1] == {"more": 500 + 2 + 2 * (3 + 1 + 4) - MAX_SUBJECTS_KEPT}
    assert len(spelled) == MAX_SUBJECTS_KEPT
    assert "more" not in subjects(Call("edit", paths=(INSIDE,) * MAX_SUBJECTS_KEPT))[-1]


def test_a_search_tells_that_it_read_all_below() -> None:
    """What was searched is recorded by its own place, with the word that all below was read."""
    folder = PathSubject("path", "./src", "read", ("src/",), "/ws/src", below=True)
    root = PathSubject("path", "", "read", ("",), "/ws", below=True)
    assert subjects(Call("grep", paths=(folder, root))) == [
        {"path": "src", "access": "read", "below": True},
        {"path": ".", "access": "read", "below": True},
    ]


def test_a_refusal_tells_why() -> None:
    """A refusal keeps the caveat, the value and the reason, cleared of secrets."""
    refused = Decision(Refusal("hosts", "h", "no `https://u:p@h/`"), "gate")
    data = decision_data(Call("fetch", server="web"), refused, call_id="", ticket="", actor="main")
    assert data["decision"] == "refuse"
    assert (data["caveat"], data["value"], data["server"]) == ("hosts", "h", "web")
    assert data["reason"] == "no `https://[hidden]@h/`"


@pytest.mark.parametrize(
    ("name", "argument", "kept"),
    [
        ("update_password", "user", 'argument `user` of `update_password`: "Eve" is not "Ann"'),
        ("login", "password", "argument `password` of `login`: [hidden]"),
    ],
)
def test_a_refused_argument_is_told_and_a_secret_one_is_not(
    name: str, argument: str, kept: str
) -> None:
    """A tool whose name speaks of a secret is read as any other; a secret's values go, both."""
    scope = parse_scope([f'tools={name}({argument}="Ann")'], at=0)
    ticket = mint(scope.caveats, key=KEY, sid="s", minted_at=0)
    call = Call(name, arguments={argument: "Eve"})
    data = decision_data(call, authorize(ticket, call, 0), call_id="", ticket="", actor="main")
    assert str(data["reason"]).startswith(kept + "; tools: ")
    assert ("Eve" in str(data)) == (argument == "user")


def test_the_cost_is_kept_where_it_is_not_one() -> None:
    """A call that holds others counts for all of them, also when counts are rebuilt."""
    batch = Call("batch", nested=(Call("read"), Call("read")))
    assert decision_data(batch, ALLOW, call_id="", ticket="", actor="")["cost"] == 3
    assert "cost" not in decision_data(Call("read"), ALLOW, call_id="", ticket="", actor="")


def test_many_subjects_are_counted_and_not_listed() -> None:
    """An entry names so many subjects and says how many more there were."""
    call = Call("read", paths=(INSIDE,) * 1_000, nested=(Call("shell", command="ls"),))
    kept = subjects(call)
    assert len(kept) == MAX_SUBJECTS_KEPT + 1
    assert kept[-1] == {"more": 1_001 - MAX_SUBJECTS_KEPT}
    assert subjects(Call("batch", nested=(Call("shell", command="ls"),))) == [
        {"inside": "shell", "command": "ls"}
    ]


ANYTHING = st.text(alphabet=st.characters(exclude_categories=()), max_size=40)


@given(ANYTHING, ANYTHING, ANYTHING, ANYTHING)
def test_whatever_a_model_wrote_can_be_recorded(
    tool: str, call_id: str, text: str, actor: str
) -> None:
    """Lone surrogates, controls and endless texts never keep a decision from being recorded."""
    call = Call(
        tool,
        server=text,
        paths=(PathSubject("p", text * 200, "read", (), text),),
        urls=(UrlSubject("u", text, text, text, 0, ()),),
        command=text * 200,
    )
    refused = Decision(Refusal(text, text * 100, text))
    data = decision_data(call, refused, call_id=call_id, ticket="", actor=actor)
    assert json.loads(encode_data(data)) == data
    widened = refused_delegation_data("", [text] * 99, caveat=text, reason=text, asked_by=actor)
    assert json.loads(encode_data(widened)) == widened


def test_text_is_cut_before_it_is_searched() -> None:
    """What is kept of a text has a limit, and says that it was cut."""
    assert told("x" * (MAX_TEXT_CHARS + 1)) == "x" * MAX_TEXT_CHARS + "…"
    assert told("x" * MAX_TEXT_CHARS) == "x" * MAX_TEXT_CHARS
    for cut in range(120, 330):
        assert "hunter" not in told(f"PASSWORD={'a' * cut} https://me:hunter22@host/", 100)


def test_a_ticket_is_rebuilt_from_its_entry() -> None:
    """The chain without its MAC gives back the same ticket to who has the key."""
    root = mint([tools("read", "edit"), calls(5)], key=KEY, sid="s", minted_at=3, nonce="n")
    child = attenuate(root, tools("read"), nonce="m")
    assert recorded_ticket(ticket_data(root, []), KEY) == root
    data = delegation_data(child, ["tools=read"], asked_by="main", holder="agent:x")
    assert recorded_ticket(data, KEY) == child
    assert data["parent"] == root.id
    assert child.wire().splitlines()[-1] not in json.dumps(data)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"chain": []},
        {"chain": "x"},
        {"chain": [1]},
        {"chain": ["{}"], "ticket": "x"},
        {"chain": ["not json"], "ticket": "x"},
    ],
)
def test_an_entry_without_its_ticket_is_a_break(data: dict[str, object]) -> None:
    """An entry that holds no chain, or another's, is never passed over."""
    with pytest.raises(Break):
        recorded_ticket(data, KEY)
    good = ticket_data(mint([], key=KEY, sid="s", minted_at=0), [])
    with pytest.raises(Break):
        recorded_ticket({**good, "ticket": "0" * 16}, KEY)


def test_the_opening_and_the_intent() -> None:
    """The first entries say who writes, where, and why."""
    data = opening_data("claude-code", Path("/ws/\udcff"))
    assert data["agent"] == "claude-code"
    assert data["workspace"] == "/ws/\\udcff"
    assert str(data["writer"]).startswith("capability-broker ")
    line = intent_data(Intent("use token=abc", "d" * 64, 0))
    assert line == {"line": "use token=[hidden]", "digest": "d" * 64}
