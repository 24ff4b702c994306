"""
This project as a log in the peer benchmark of tamper-evident logs.

Run it in one run with its peers, so that every figure has a neighbour::

    python bench_logpeers.py --plugin bench/log_broker.py

Appends are not synced, as those of the peers are not; everything else is done: the lock among
processes, the link, the tag and the tree. Verifying reads the file with every check.
"""

from __future__ import annotations

import os
from dataclasses import replace

from bench_logpeers import VM, Log, rec  # type: ignore[import-not-found]  # the harness has it

AT = 1_796_025_600_000_000_000
MILLISECOND = 1_000_000


class Broker(Log):
    name = "capability-broker"
    dist = "capability-broker"
    py = VM
    n = 50_000
    jsonl = True
    notes = "HMAC-SHA256 chain, RFC 6962 tree, head, safe among processes; verify: every check"

    def open(self, d):
        from broker.home import Home
        from broker.receipt.disk import Disk
        from broker.receipt.keys import Key
        from broker.receipt.store import Receipts

        self.key = Key.of(bytes(range(32)))
        unsynced = replace(Disk(), sync=lambda _fd: None)
        home = Home.find({**os.environ, "BROKER_HOME": d})
        self.receipts = Receipts(home, self.key, system=unsynced)
        self.receipt = self.receipts.create("s1", opening={}, at=AT)
        self.p = self.receipts.path("s1")

    def append(self, i):
        self.receipt.append("decision", rec(i), at=AT + i * MILLISECOND, durable=False)

    def close(self):
        self.receipt.seal("complete", at=AT)
        self.receipt.close()

    def verify(self):
        from broker.receipt.verify import verify

        verdict = verify(self.p, key=self.key, head=self.receipts.head_path("s1"), sid="s1")
        return verdict.state == "SEALED"
