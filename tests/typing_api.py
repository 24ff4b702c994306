"""The public API as a user's type checker sees it; mypy reads this file, nothing runs it."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import broker
from broker import (
    Break,
    Call,
    Caveat,
    Decision,
    Intents,
    Receipts,
    Refusal,
    Ticket,
    TicketGuard,
    append,
    attach,
    attenuate,
    authorize,
    check,
    describe,
    enforce,
    from_scope,
    load_or_create_key,
    mint,
    narrowed,
    parse_scope,
    render,
    sign,
    verify,
    verify_chain,
)
from broker.home import Home
from broker.intent import Intent, TypedLine
from broker.receipt.entry import Entry
from broker.receipt.keys import Key
from broker.receipt.verify import Verdict
from broker.service.client import SessionClient

KEY = bytes(32)

scope = parse_scope(["tools=read_file", "paths=src/**"], at=0)
assert_type(scope.caveats, tuple[Caveat, ...])
assert_type(render(scope.caveats), tuple[str, ...])

ticket = mint(scope.caveats, key=KEY, sid="s", minted_at=0)
assert_type(ticket, Ticket)
assert_type(attenuate(ticket, Caveat("calls", 3)), Ticket)
assert_type(verify_chain(ticket.wire(), KEY), Ticket)
assert_type(describe(ticket), tuple[str, ...])

decision = authorize(ticket, Call("read_file"), 0)
assert_type(decision, Decision)
assert_type(decision.refusal, Refusal | None)
assert_type(enforce(decision), Decision)
assert_type(broker.authorize(ticket, Call("read_file"), 0, 3).allowed, bool)

guard = from_scope(["tools=read_file", "calls=3"])
assert_type(guard, TicketGuard)
assert_type(check(guard, "read_file", {"path": "src/a.py"}), Decision)
assert_type(narrowed(guard, "calls=1"), TicketGuard | SessionClient)
assert_type(check(attach(), "read_file", {}), Decision)
assert_type(Intents().open(TypedLine("fix the failing test", "argument"), 0), Intent)

key = load_or_create_key(Path("key"))
assert_type(key, Key)
assert_type(sign(KEY, "label", b"body"), str)
assert_type(verify(Path("receipt"), key=key, head=None), Verdict)
assert_type(Break("mac", "line 3 was not signed").line, int)
with_receipt = Receipts(Home.find({}), key).create("s", opening={}, at=0)
assert_type(append(with_receipt, Call("t"), decision, ticket=ticket.id), Entry)
