"""
This project as an engine in the peer benchmark of tickets and policy decisions.

Run it in one process tree with its peers, so that every figure has a neighbour::

    python bench.py --plugin bench/engine_broker.py

The harness (its ``common.py`` is imported here) asks each engine for the same policy, the same
calls and the same traps. ``decide`` is timed on a resolved call, as the gate sees it: the first
time a call is seen, the real resolver reads it, through a catalog and the file system.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path

from common import (  # type: ignore[import-not-found]  # the harness puts it on the path
    FILE_TOOLS,
    HOSTS,
    KEY,
    NOW,
    PATHS,
    TOOLS,
    TTL,
    Call,
    Engine,
)

SECOND = 10**9
CATALOG = """
[tools.http_get]
effect = "egress"

[tools.http_get.arguments]
url = "url"
"""


class Broker(Engine):
    name = "capability-broker"
    dist = "capability-broker"
    module = "broker"
    family = "product"
    notes = "real tickets, resolver and receipts of this project"

    def setup(self):
        from broker.authorize import authorize
        from broker.catalogs import load_catalogs
        from broker.caveats import calls, hosts, paths, tools, until
        from broker.resolve import Resolver
        from broker.ticket import attenuate, mint, verify_chain

        self.folder = tempfile.TemporaryDirectory(prefix="broker-bench-")
        home = Path(self.folder.name)
        (home / "config" / "catalogs").mkdir(parents=True)
        (home / "config" / "catalogs" / "bench.toml").write_text(CATALOG)
        (home / "ws").mkdir()
        self.resolver = Resolver(home / "ws", load_catalogs(config=home / "config"))
        self._mint, self._attenuate, self._verify = mint, attenuate, verify_chain
        self.policy = (tools(*TOOLS), paths(*PATHS), hosts(*HOSTS), calls(100))
        self.until = until
        self.narrower = (tools("grep", "read_file"), paths("src/**"))
        self.bash = tools(*TOOLS, "bash")
        self.file_tools = tools(*FILE_TOOLS)
        resolved: dict[Call, tuple] = {}
        resolve = self._resolve

        def decide(ticket, call):
            try:
                seen, at = resolved[call]
            except KeyError:
                seen, at = resolved[call] = resolve(call), call.now * SECOND
            return authorize(ticket, seen, at).refusal is None

        def e2e(ticket, call):
            try:
                seen, at = resolved[call]
            except KeyError:
                seen, at = resolved[call] = resolve(call), call.now * SECOND
            decision = authorize(ticket, seen, at)
            self._record(ticket, seen, decision, at)
            return decision.refusal is None

        self.decide, self.e2e = decide, e2e
        self.receipt = None

    def _resolve(self, call):
        arguments = {}
        if call.path is not None:
            arguments["path"] = call.path
        if call.host is not None:
            arguments["url"] = f"https://{call.host}/"
        if call.tool == "grep":
            arguments["pattern"] = "x"
        return self.resolver.resolve(call.tool, arguments)

    def mint(self, deadline):
        caveats = (*self.policy, self.until(deadline * SECOND))
        return self._mint(caveats, key=KEY, sid="bench", minted_at=0).wire()

    def load(self, text):
        return self._verify(text, KEY)

    def attenuate(self, ticket):
        return self._attenuate(ticket, *self.narrower, self.until(ticket.until - SECOND))

    def widen(self, ticket):
        return self._attenuate(ticket, self.bash)

    def make_chain(self, depth):
        deadline = NOW() + TTL
        ticket = self.load(self.mint(deadline))
        for i in range(1, depth + 1):
            ticket = self._attenuate(ticket, self.file_tools, self.until((deadline - i) * SECOND))
        return ticket.wire()

    def verify_chain(self, wire):
        return self._verify(wire, KEY)

    def hold(self, i):
        caveats = (*self.policy, self.until((2_000_000_000 + i) * SECOND))
        return self._mint(caveats, key=KEY, sid="bench", minted_at=0, nonce=f"{i:016d}")

    def _record(self, ticket, call, decision, at):
        if self.receipt is None:
            from broker.home import Home
            from broker.receipt import Receipts, load_or_create_key
            from broker.receipt.disk import Disk

            home = Home.find({**os.environ, "BROKER_HOME": self.folder.name})
            key = load_or_create_key(home.data / "keys" / "receipt.key")
            # The figure is without syncs, as the other engines' are; everything else is done.
            unsynced = replace(Disk(), sync=lambda _fd: None)
            receipts = Receipts(home, key, system=unsynced)
            self.receipt = receipts.create("bench", opening={}, at=at)
            self.held = None
        if ticket is not self.held:
            self.held, self.held_id = ticket, ticket.id
        refusal = decision.refusal
        data = {
            "args": call.digest,
            "call": "",
            "decision": "allow" if refusal is None else "refuse",
            "enforcement": decision.enforcement,
            "subjects": [p.spelled for p in call.paths] + [u.spelled for u in call.urls],
            "ticket": self.held_id,
            "tool": call.tool,
        }
        self.receipt.append("decision", data, at=at, durable=False)
