"""
The decision sets of the AuthZEN interoperability events, and a small one of our own.

The example's users are named by their addresses. The sets also call them by the opaque identifiers
of an identity provider, as subjects of type `user` and `identity`; which is whose, the oldest set
says. So the example's file is served with these names put beside the others.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.servekit import Inside, inside
from tests.sessionkit import Bench, bench

__all__ = ["bench"]

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "demo" / "authzen" / "subjects.toml"
LISTS = "authzen-todo-backend/test/"
OLDEST = LISTS + "decisions.json"
SETS = {
    OLDEST: 40,
    LISTS + "decisions-authorization-api-1_0-02.json": 43,
    "authzen-api-gateways/test-harness/test/decisions.json": 25,
}

# Who asks, what for, on what, whose it is, and the right answer.
OWN = [
    ("rick@the-citadel.com", "can_delete_todo", "todo", "1", "morty@the-citadel.com", True),
    ("morty@the-citadel.com", "can_delete_todo", "todo", "1", "morty@the-citadel.com", True),
    ("morty@the-citadel.com", "can_delete_todo", "todo", "1", "rick@the-citadel.com", False),
    ("morty@the-citadel.com", "can_delete_todo", "user", "1", "morty@the-citadel.com", False),
    ("beth@the-smiths.com", "can_read_todos", "todo", "1", None, True),
    ("beth@the-smiths.com", "can_create_todo", "todo", "1", None, False),
    ("beth@the-smiths.com", "GET", "route", "/todos", None, True),
    ("beth@the-smiths.com", "GET", "route", "/admin", None, False),
    ("nobody@the-smiths.com", "can_read_todos", "todo", "1", None, False),
]


def _served(bench: Bench, subjects: str) -> Inside:
    return inside(bench, subjects=subjects)


def _named(interop: Path) -> str:
    """Return the example's file with each user called by all of their names."""
    text = EXAMPLE.read_text(encoding="utf-8")
    for case in json.loads((interop / OLDEST).read_text())["decisions"]:
        subject = case["request"]["subject"]
        plain, ident = f'"user:{subject["id"]}"', subject["identity"]
        if f'"user:{ident}"' not in text:
            text = text.replace(plain, f'{plain}, "user:{ident}", "identity:{ident}"')
    return text


@pytest.mark.parametrize("name", SETS)
def test_every_decision_of_the_interop_sets_is_right(name: str, bench: Bench, shared: Path) -> None:
    """The example's file gives the answer that the working group expects, for each request."""
    interop = shared / "vectors" / "authzen" / "interop"
    cases: dict[str, list[dict[str, Any]]] = json.loads((interop / name).read_text())
    pdp = _served(bench, _named(interop))
    wrong = []
    for kind, listed in cases.items():
        path = "/access/v1/evaluations" if kind == "evaluations" else "/access/v1/evaluation"
        for case in listed:
            heard = pdp.ask(path, case["request"]).json()
            found = [{"decision": one["decision"]} for one in heard.get("evaluations", [heard])]
            wanted = case["expected"]
            if found != (wanted if isinstance(wanted, list) else [{"decision": wanted}]):
                wrong.append((case, heard))
    pdp.hosted.seal()
    assert wrong == []
    assert sum(map(len, cases.values())) == SETS[name]


@pytest.mark.parametrize("case", OWN)
def test_the_example_answers(case: tuple[Any, ...], bench: Bench) -> None:
    """An administrator may do all, an editor what is theirs, a viewer reads, and others nothing."""
    who, name, kind, ident, owner, wanted = case
    properties = {} if owner is None else {"ownerID": owner}
    body = {
        "subject": {"type": "user", "id": who},
        "action": {"name": name},
        "resource": {"type": kind, "id": ident, "properties": properties},
    }
    pdp = _served(bench, EXAMPLE.read_text(encoding="utf-8"))
    heard = pdp.ask("/access/v1/evaluation", body).json()
    pdp.hosted.seal()
    assert heard["decision"] is wanted, heard
