"""
The cases that an adapter of an agent framework passes: a base class for its test.

An author writes a class with one method for each way in which the framework runs an agent:

.. code-block:: python

    class TestMyFramework(AdapterSuite):
        lacks = {"stream": "streams nothing"}

        async def drive(self, stage: Stage) -> Drive:
            ...  # an agent with stage.tools(), held, and a model that says stage.turns

Each case opens a session of its own, drives a scripted model through the real framework, and then
looks at what ran, what the model was told, and what the receipt says.

Decided here: the cases. Not decided here: how a framework is driven.

Rules a maintainer keeps: a case judges by what the tools themselves wrote down and by the
receipt; what a framework has no notion of is skipped for a reason that its author names, and
nothing else is.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, ClassVar, Final, TypeVar

import pytest

from broker.frameworks.holding import Holder
from broker.limits import MAX_ARGUMENT_DEPTH, MAX_ARGUMENT_VALUES
from broker.resolve import Resolver
from broker.service.client import SessionClient
from broker.testing.stage import SAID, Ask, Drive, Helper, Stage, Trial, Trials

T = TypeVar("T")

WAYS: Final = ("async", "sync", "stream")
OUTSIDE: Final = "/etc/hostname"
SLOW_S: Final = 0.6  # how long a slow decision takes, and how long a deaf broker is waited for
PROMPT_S: Final = 20.0  # within which a run ends, whatever its broker does


class AdapterSuite(Trials):
    """
    The cases. A subclass says how its framework is driven; see this module.

    ``lacks`` says what the framework has no notion of, in words that go on from "the SDK …": of
    ``async``, ``sync``, ``stream``, ``parallel``, ``delegate``, ``cancel``.
    """

    lacks: ClassVar[Mapping[str, str]] = {}
    prompt_s: ClassVar[float] = PROMPT_S  # more where a run starts a process

    # ── what an author writes ──

    async def drive(self, stage: Stage) -> Drive:
        """Run an agent with the stage's tools and script, and return what its model was told."""
        raise AssertionError(f"{type(self).__name__} does not say how it is driven")

    def drive_sync(self, stage: Stage) -> Drive:
        """Do the same by what the framework has for code without an event loop."""
        raise AssertionError(f"{type(self).__name__} does not say how it is driven without a loop")

    async def drive_streamed(self, stage: Stage) -> Drive:
        """Do the same, with the answers of the model streamed, and read to their end."""
        raise AssertionError(f"{type(self).__name__} does not say how it streams")

    async def drive_helper(self, stage: Stage) -> Drive:
        """
        Run the main agent with ``stage.helper`` as its subagent, or as where it hands off to.

        The main agent calls it once, and then says the stage's turns.
        """
        raise AssertionError(f"{type(self).__name__} does not say how it delegates")

    # ── how each case begins ──

    def run(self, stage: Stage, way: str = "async") -> Drive:
        """Drive a stage in one way, within a time that no broker may exceed."""
        drive = self.drive_streamed if way == "stream" else self.drive
        if stage.helper is not None:
            drive = self.drive_helper
        with stage.held.block():
            if way == "sync":
                return self.drive_sync(stage)
            return asyncio.run(self._prompt(drive(stage)))

    async def _prompt(self, drive: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wait_for(drive, self.prompt_s)

    def needs(self, *features: str) -> None:
        """Skip a case for a feature that the framework lacks, by the reason its author gives."""
        for feature in features:
            if feature in self.lacks:
                pytest.skip(f"the SDK {self.lacks[feature]}")

    # ── one call ──

    @pytest.mark.parametrize("way", WAYS)
    def test_an_allowed_call_runs(self, trial: Trial, way: str) -> None:
        """An allowed call runs as decided, its result goes to the model, its end is kept."""
        self.needs(way)
        stage = trial.stage([Ask("read", {"path": "src/a.py"}, "c1")])
        drive = self.run(stage, way)
        assert stage.ran == [("read", "src/a.py")]
        assert "a = 1" in drive.told["c1"]
        assert SAID in drive.said
        assert trial.answers() == [("read", "allow")]
        assert [d["ok"] for d in trial.entries("result")] == [True]

    @pytest.mark.parametrize("way", WAYS)
    def test_a_refused_call_never_runs(self, trial: Trial, way: str) -> None:
        """A refused call does not run, the model reads which caveat refused it, the run goes on."""
        self.needs(way)
        stage = trial.stage(
            [Ask("read", {"path": OUTSIDE}, "c1")], [Ask("read", {"path": "src/a.py"}, "c2")]
        )
        drive = self.run(stage, way)
        assert stage.ran == [("read", "src/a.py")]
        assert "is not within paths" in drive.told["c1"]
        assert "do not work around this" in drive.told["c1"]
        assert "a = 1" in drive.told["c2"]
        assert SAID in drive.said
        assert trial.answers() == [("read", "paths"), ("read", "allow")]

    def test_a_tool_outside_the_ticket(self, trial: Trial) -> None:
        """A tool that the framework has and the ticket has not is refused by its name."""
        stage = trial.stage([Ask("shell", {"command": "id"}, "c1")])
        drive = self.run(stage)
        assert stage.ran == []
        assert "`shell` is not in tools" in drive.told["c1"]
        assert trial.answers() == [("shell", "tools")]

    def test_an_unknown_tool(self, trial: Trial) -> None:
        """A tool that nobody has runs nothing and is allowed nothing, however the run ends."""
        stage = trial.stage([Ask("conjure", {"path": "src/a.py"}, "c1")])
        self.run(stage)
        assert stage.ran == []
        assert "allow" not in {answer for _, answer in trial.answers()}

    def test_a_tool_that_fails(self, trial: Trial) -> None:
        """The end of a call that failed is recorded as a failure, or as what the SDK made of it."""
        stage = trial.stage([Ask("fail", {"text": "x"}, "c1")])
        self.run(stage)
        assert stage.ran == [("fail", "x")]
        assert trial.answers() == [("fail", "allow")]
        assert len(trial.entries("result")) == 1

    def test_two_readings_of_one_text(self, trial: Trial) -> None:
        """Arguments in which a name stands twice never lead outside, whichever value is read."""
        text = f'{{"path": "src/a.py", "path": {json.dumps(OUTSIDE)}}}'
        stage = trial.stage([Ask("read", text, "c1")])
        self.run(stage)
        assert stage.ran == []
        assert "allow" not in {answer for _, answer in trial.answers()}

    @pytest.mark.parametrize("text", ["[1]", '{"path": ', '{"path": NaN}', "7"])
    def test_what_is_no_object(self, trial: Trial, text: str) -> None:
        """Arguments that are no JSON object run nothing, however the run ends."""
        stage = trial.stage([Ask("read", text, "c1")])
        self.run(stage)
        assert stage.ran == []
        assert "allow" not in {answer for _, answer in trial.answers()}

    # ── what is too large ──

    def test_large_arguments(self, trial: Trial) -> None:
        """Two megabytes of text are decided and handed on whole."""
        text = "letters " * 250_000
        stage = trial.stage([Ask("note", {"text": text}, "c1")])
        drive = self.run(stage)
        assert stage.ran == [("note", text)]
        assert f"noted {len(text)} letters" in drive.told["c1"]

    def test_too_many_values(self, trial: Trial) -> None:
        """More values than a call may hold are refused, and nothing runs."""
        stage = trial.stage([Ask("count", {"items": [1] * (MAX_ARGUMENT_VALUES + 1)}, "c1")])
        self.run(stage)
        assert stage.ran == []
        assert "allow" not in {answer for _, answer in trial.answers()}

    def test_too_deep(self, trial: Trial) -> None:
        """Arguments nested deeper than a call may be are refused, and nothing runs."""
        deep: object = 1
        for _ in range(MAX_ARGUMENT_DEPTH + 1):
            deep = [deep]
        stage = trial.stage([Ask("count", {"items": deep}, "c1")])
        self.run(stage)
        assert stage.ran == []
        assert "allow" not in {answer for _, answer in trial.answers()}

    # ── what breaks ──

    def test_an_error_while_deciding(self, trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
        """An error that nobody foresaw is a refusal that the model reads."""

        def broken(*_: object, **__: object) -> None:
            raise ZeroDivisionError("nobody foresaw this")

        monkeypatch.setattr(Resolver, "resolve", broken)
        stage = trial.stage([Ask("read", {"path": "src/a.py"}, "c1")])
        drive = self.run(stage)
        assert stage.ran == []
        assert "could not be decided" in drive.told["c1"]

    def test_a_broker_that_is_gone(self, trial: Trial) -> None:
        """A session that cannot be reached refuses, and the model is told."""
        gone = Holder(SessionClient(str(trial.workspace / "nothing"), "t"))
        stage = Stage(gone, ((Ask("read", {"path": "src/a.py"}, "c1"),),))
        drive = self.run(stage)
        assert stage.ran == []
        assert "cannot be asked" in drive.told["c1"]

    def test_a_broker_that_hangs(self, trial: Trial) -> None:
        """A session that never answers is waited for in its time, and then refuses."""
        with socket.socket(socket.AF_UNIX) as deaf:
            # By a relative name: a socket's path has room for about a hundred letters.
            deaf.bind("deaf")
            deaf.listen()
            asked = Holder(SessionClient("deaf", "t", timeout_s=SLOW_S))
            stage = Stage(asked, ((Ask("read", {"path": "src/a.py"}, "c1"),),))
            drive = self.run(stage)
        assert stage.ran == []
        assert "cannot be asked" in drive.told["c1"]

    # ── many at once ──

    def test_parallel_calls_share_a_budget(self, trial: Trial) -> None:
        """Of eight calls at once under a budget of three, three run."""
        self.needs("parallel")
        with trial.held.narrowed("calls=3", name="few") as few:
            asks = [Ask("note", {"text": f"{n}"}, f"c{n}") for n in range(8)]
            stage = Stage(few, (tuple(asks),), pause_s=0.01)
            drive = self.run(stage)
        assert len(stage.ran) == 3
        refused = [text for text in drive.told.values() if "budget of 3 calls" in text]
        assert len(refused) == 5
        assert sorted(a for _, a in trial.answers()) == ["allow"] * 3 + ["calls"] * 5
        assert len(trial.entries("result")) == 3

    def test_a_slow_decision_does_not_stop_others(
        self, trial: Trial, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """While a call is decided the event loop goes on."""
        self.needs("cancel")
        _slow(monkeypatch)
        stage = trial.stage([Ask("read", {"path": "src/a.py"}, "c1")])

        async def both() -> int:
            ticks = 0
            task = asyncio.ensure_future(self.drive(stage))  # in the trial's own block
            while not task.done():
                await asyncio.sleep(SLOW_S / 20)
                ticks += 1
            await task
            return ticks

        assert asyncio.run(self._prompt(both())) > 5
        assert stage.ran == [("read", "src/a.py")]

    def test_a_cancelled_call_runs_nothing(
        self, trial: Trial, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A run that is cancelled while its call is decided runs nothing, however it is decided."""
        self.needs("cancel")
        asked = _slow(monkeypatch)
        stage = trial.stage([Ask("read", {"path": "src/a.py"}, "c1")])

        async def cancelled() -> None:
            task = asyncio.ensure_future(self.drive(stage))
            while not asked and not task.done():
                await asyncio.sleep(SLOW_S / 20)
            task.cancel()
            await asyncio.wait([task])
            await asyncio.sleep(2 * SLOW_S)  # the decision itself goes to its end

        asyncio.run(self._prompt(cancelled()))
        assert asked
        assert stage.ran == []
        assert trial.entries("result") == []

    # ── delegates ──

    def test_a_helper_is_held_to_less(self, trial: Trial) -> None:
        """A helper does what its ticket permits, and not what only its caller may do."""
        self.needs("delegate")
        own = [Ask("read", {"path": "src/a.py"}, "h1"), Ask("note", {"text": "x"}, "h2")]
        helper = Helper("helper", ("tools=read",), ("read", "note"), (tuple(own),))
        stage = trial.stage([Ask("note", {"text": "mine"}, "c1")], helper=helper)
        drive = self.run(stage)
        assert ("read", "src/a.py") in stage.ran
        assert ("note", "x") not in stage.ran
        assert "`note` is not in tools" in drive.told["h2"]
        judged = [d for d in trial.entries("decision") if d["tool"] in ("read", "note")]
        by_helper = [d for d in judged if str(d.get("actor", "")).startswith("agent:helper")]
        assert sorted(d["tool"] for d in by_helper)[:2] == ["note", "read"]
        assert len(trial.entries("delegate")) == 1
        assert {d["ticket"] for d in by_helper} == {trial.entries("delegate")[0]["ticket"]}

    def test_a_helper_spends_from_the_same_budget(self, trial: Trial) -> None:
        """What a helper calls is counted for its caller too."""
        self.needs("delegate")
        notes = tuple((Ask("note", {"text": f"{n}"}, f"h{n}"),) for n in range(4))
        helper = Helper("helper", ("tools=note",), ("note",), notes)
        with trial.held.narrowed("calls=3", name="few") as few:
            stage = Stage(few, (), helper=helper)
            self.run(stage)
        assert 0 < len(stage.ran) <= 3
        refused = [d for d in trial.entries("decision") if d["decision"] == "refuse"]
        assert {d["caveat"] for d in refused} == {"calls"}

    def test_a_helper_never_gets_more(self, trial: Trial) -> None:
        """A helper that is to get more than its caller runs nothing, and that is recorded."""
        self.needs("delegate")
        own = ((Ask("shell", {"command": "id"}, "h1"),),)
        helper = Helper("helper", ("tools=shell",), ("shell",), own)
        stage = trial.stage(helper=helper)
        self.run(stage)
        assert stage.ran == []
        (refused,) = trial.entries("delegate")
        assert refused["decision"] == "refuse"


def _slow(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make each decision slow, and return the tools that are asked about."""
    real: Callable[..., Any] = Resolver.resolve
    asked: list[str] = []

    def slow(self: Resolver, tool: str, *given: Any, **named: Any) -> Any:
        asked.append(tool)
        time.sleep(SLOW_S)
        return real(self, tool, *given, **named)

    monkeypatch.setattr(Resolver, "resolve", slow)
    return asked
