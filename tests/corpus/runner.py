"""
Runs one case of the corpus: builds its tree, reads its scope, decides its calls.

A case is a scope, a call, and the right answer: ``allow``, ``refuse``, or ``error`` when the
scope must not be read at all. Some have steps, with changes of the tree between calls. The
corpus lies outside the project (the ``shared`` fixture); nothing of it is copied.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from broker.authorize import authorize
from broker.catalogs import Catalogs
from broker.errors import AttenuationError, InputError
from broker.instants import parse_instant
from broker.resolve import Resolver
from broker.scope import parse_scope
from broker.ticket import Ticket, attenuate, mint, verify_chain

KEY = bytes(range(32))
NOON = "2026-01-01T12:00:00Z"


class WrongStep(AssertionError):
    """A step of a case got another answer than it must."""


@dataclass
class Corpus:
    """The cases, and the tree that each of them starts from."""

    cases: list[dict]
    tree: dict

    @classmethod
    def load(cls, shared: Path) -> Corpus:
        """Read the corpus."""
        folder = shared / "corpus"
        lines = (folder / "cases.jsonl").read_text(encoding="utf-8").splitlines()
        tree = json.loads((folder / "workspace_default.json").read_text(encoding="utf-8"))
        return cls([json.loads(line) for line in lines], tree)


@dataclass
class Budget:
    """Counts the calls that were allowed, for every ticket of a chain at once."""

    counts: Counter[str] = field(default_factory=Counter)
    lost: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def decide(self, ticket: Ticket, call: object, at: int | None) -> tuple[str, str]:
        """Decide a call and count it, as one step; return the answer and the caveat."""
        with self.lock:
            spent = None if self.lost else tuple(self.counts[i] for i in ticket.line)
            decision = authorize(ticket, call, at, spent)
            if decision.refusal is not None:
                return "refuse", decision.refusal.caveat
            self.counts.update(dict.fromkeys(ticket.line, call.cost()))
            return "allow", ""


class World:
    """The folders that one case plays in."""

    def __init__(self, folder: Path, tree: Mapping, case: Mapping) -> None:
        self.root = folder / "ws"
        self.names = {
            "{{ROOT}}": str(self.root),
            "{{OUTSIDE}}": str(folder / "outside"),
            "{{HOME}}": str(folder / "home"),
            "{{ROOT_NAME}}": self.root.name,
            "{{ROOT_LINK}}": str(folder / "way-in"),
        }
        own = self.fill(case.get("workspace") or {})
        for base, files in (
            (self.root, {} if own.get("empty") else tree["files"]),
            (folder / "outside", tree["outside_files"]),
            (folder / "home", tree["home_files"]),
            (folder / "ws-evil", tree["evil_files"]),
        ):
            base.mkdir(parents=True)
            _write(base, files)
        _write(folder / "outside", own.get("outside_files", {}))
        for name in own.get("outside_dirs", []):
            (folder / "outside" / name).mkdir(parents=True)
        for name in own.get("remove", []):
            shutil.rmtree(self.root / name)
        for name in own.get("dirs", []):
            (self.root / name).mkdir(parents=True)
        _write(self.root, own.get("files", {}))
        for name in own.get("fifos", []):
            os.mkfifo(self.root / name)
        self.change(own)
        if own.get("root_link"):
            os.symlink(self.root, folder / "way-in")

    def fill(self, value):
        """Put this world's folders into the texts of a case."""
        if isinstance(value, str):
            for name, text in self.names.items():
                value = value.replace(name, text)
            return value
        if isinstance(value, list):
            return [self.fill(item) for item in value]
        if isinstance(value, dict):
            return {self.fill(key): self.fill(item) for key, item in value.items()}
        return value

    def change(self, change: Mapping) -> None:
        """Change the tree between two calls."""
        for name, target in change.get("symlinks", {}).items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            os.symlink(target, self.root / name)
        for name, target in change.get("hardlinks", {}).items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            os.link(target, self.root / name)
        for name, target in change.get("replace_with_symlink", {}).items():
            _remove(self.root / name)
            os.symlink(target, self.root / name)
        for name, text in change.get("replace_with_file", {}).items():
            _remove(self.root / name)
            (self.root / name).write_text(text, encoding="utf-8")


def _write(base: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_text(text, encoding="utf-8")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def is_plain(case: Mapping) -> bool:
    """Whether a case neither brings a tree of its own nor changes it, so that it can share one."""
    return not case.get("workspace") and not any("mutate" in s for s in case.get("steps") or [])


def run(case: Mapping, catalogs: Catalogs, world: World) -> tuple[str, str]:
    """
    Return the answer to a case, and the caveat that it names.

    Raises:
        WrongStep: a step before the last got the wrong answer, or it took too long.
    """
    begun = time.monotonic()
    answer = _run(case, catalogs, world)
    if "time_limit_s" in case and time.monotonic() - begun > case["time_limit_s"]:
        raise WrongStep("it took too long")
    return answer


def _run(case: Mapping, catalogs: Catalogs, world: World) -> tuple[str, str]:
    state = case.get("state") or {}
    minted_at = parse_instant(state.get("minted_at") or state.get("now") or NOON)
    try:
        scope = parse_scope(
            case["scope"],
            at=minted_at,
            groups=catalogs.groups(),
            past_ok="minted_at" not in state,
        )
        ticket = mint(scope.caveats, key=KEY, sid="corpus", minted_at=minted_at)
    except InputError as error:
        return "error", error.message
    subject = case.get("subject") or {}
    try:
        for text in subject.get("scope_added", []):
            ticket = attenuate(ticket, *parse_scope([text], at=minted_at).caveats)
    except AttenuationError as error:
        return "refuse", error.kind
    windows = case["platform"] == "windows"
    resolver = Resolver("C:\\ws" if windows else world.root, catalogs)
    used = state.get("calls_used", 0)
    budget = Budget(Counter({ticket.root_id: used or 0}), lost=used is None)
    now = state.get("now", NOON)
    play = _Play(world, resolver, budget, ticket, subject.get("mcp_server"))
    return play.steps(case, None if now is None else parse_instant(now))


@dataclass
class _Play:
    """One case being played."""

    world: World
    resolver: Resolver
    budget: Budget
    ticket: Ticket
    server: str | None

    def decide(self, call: Mapping | None, at: int | None) -> tuple[str, str]:
        """Resolve and decide one call."""
        call = self.world.fill(call or {})
        found = self.resolver.resolve(call.get("tool"), call.get("args"), server=self.server)
        return self.budget.decide(self.ticket, found, at)

    def steps(self, case: Mapping, at: int | None) -> tuple[str, str]:
        """Play the steps; the answer is the last one's, or the case's call after a crowd."""
        steps = case.get("steps") or []
        answer = None
        for n, step in enumerate(steps):
            last = n == len(steps) - 1
            if "mutate" in step:
                self.world.change(self.world.fill(step["mutate"]))
                continue
            if step.get("copy_of_ticket") or step.get("restart"):
                self.ticket = verify_chain(self.ticket.wire(), KEY)
            if step.get("restart"):
                continue
            when = parse_instant(step["at"]) if "at" in step else at
            if "parallel" in step:
                self.crowd(step, when)
                answer = None
                continue
            call = step.get("call") or {"tool": "fetch", "args": {"url": step["redirect_to"]}}
            answer = self.decide(call, when)
            if not last and answer[0] != step["expect"]:
                raise WrongStep(f"step {n}: {answer[0]} where {step['expect']} is due")
        return answer or self.decide(case["call"], at)

    def crowd(self, step: Mapping, at: int | None) -> None:
        """Make many calls at once and compare how many were allowed."""
        answers: list[str] = []
        threads = [
            threading.Thread(target=lambda: answers.append(self.decide(step["call"], at)[0]))
            for _ in range(step["parallel"])
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = Counter(answers)
        due = step["expect_counts"]
        if any(found[answer] != due[answer] for answer in due):
            raise WrongStep(f"{dict(found)} where {due} is due")
