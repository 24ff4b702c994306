"""The suite for adapters, on a framework of a few lines: it passes, and it can fail."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pytest

from broker.errors import BrokerError, Refused
from broker.frameworks.calling import abegin, child, refusal_text
from broker.frameworks.holding import current
from broker.testing.frameworks import AdapterSuite
from broker.testing.stage import SAID, Ask, Drive, Stage, Trial, Trials

Tools = dict[str, Callable[..., Any]]


class Loop:
    """The smallest framework: it runs the calls of each turn at once, and asks before each."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}

    async def call(self, tools: Tools, ask: Ask) -> None:
        """Run one call."""
        text = ask.arguments if isinstance(ask.arguments, str) else json.dumps(ask.arguments)
        if ask.tool not in tools:
            self.told[ask.call_id] = "no such tool"
            return
        try:
            async with await abegin(ask.tool, text, call_id=ask.call_id) as begun:
                tool = tools[ask.tool]
                begun.output = await asyncio.to_thread(tool, **begun.arguments)
            self.told[ask.call_id] = str(begun.output)
        except Refused as error:
            self.told[ask.call_id] = refusal_text(error)
        except (RuntimeError, TypeError) as error:
            self.told[ask.call_id] = f"failed: {error}"

    async def turns(self, tools: Tools, turns: tuple[tuple[Ask, ...], ...]) -> None:
        """Run a script."""
        for turn in turns:
            await asyncio.gather(*(self.call(tools, ask) for ask in turn))


def named(stage: Stage, *names: str) -> Tools:
    """Return the tools of a stage by their names."""
    return {tool.__name__: tool for tool in stage.tools(*names)}


class TestLoop(AdapterSuite):
    """Every case on a framework that asks as it should."""

    lacks: ClassVar[Mapping[str, str]] = {"stream": "streams nothing"}

    async def drive(self, stage: Stage) -> Drive:
        """Run the script."""
        loop = Loop()
        await loop.turns(named(stage), stage.turns)
        return Drive(loop.told, SAID)

    def drive_sync(self, stage: Stage) -> Drive:
        """Run it without a loop around."""
        return asyncio.run(self.drive(stage))

    async def drive_helper(self, stage: Stage) -> Drive:
        """Run the helper's script below its own ticket, and then the main agent's."""
        loop, helper = Loop(), stage.helper
        assert helper is not None
        try:
            below = await asyncio.to_thread(child, current(), helper.name, helper.texts)
        except BrokerError as error:
            return Drive(loop.told, error=error)
        with below.block():
            await loop.turns(named(stage, *helper.tools), helper.turns)
        await loop.turns(named(stage), stage.turns)
        return Drive(loop.told, SAID)


class TestTheSuiteFails(Trials):
    """An adapter that does not hold its framework does not pass."""

    @pytest.mark.parametrize(
        "case",
        [
            "test_a_tool_outside_the_ticket",
            "test_parallel_calls_share_a_budget",
            "test_a_tool_that_fails",
            "test_a_broker_that_is_gone",
            "test_a_helper_is_held_to_less",
        ],
    )
    def test_without_asking(self, trial: Trial, case: str) -> None:
        """A framework that runs tools unasked fails the cases of a refusal."""

        class Unasked(TestLoop):
            """Runs whatever it is told to."""

            async def drive(self, stage: Stage) -> Drive:
                told = {}
                for ask in (ask for turn in stage.turns for ask in turn):
                    try:
                        told[ask.call_id] = named(stage)[ask.tool](**ask.arguments)
                    except RuntimeError as error:
                        told[ask.call_id] = str(error)
                return Drive(told, SAID)

            async def drive_helper(self, stage: Stage) -> Drive:
                return await self.drive(stage)

        with pytest.raises((AssertionError, KeyError)):
            getattr(Unasked(), case)(trial)

    def test_without_telling_the_model(self, trial: Trial) -> None:
        """A refusal that the model does not read fails its case."""

        class Silent(TestLoop):
            """Holds, and says nothing."""

            async def drive(self, stage: Stage) -> Drive:
                drive = await TestLoop.drive(self, stage)
                return Drive(dict.fromkeys(drive.told, "error"), SAID)

        with pytest.raises(AssertionError):
            Silent().test_a_refused_call_never_runs(trial, "async")

    def test_a_way_that_is_not_written(self, trial: Trial) -> None:
        """An author who forgets a way of driving is told, and it is not skipped."""

        class Half(AdapterSuite):
            """Has no way at all."""

        with pytest.raises(AssertionError, match="Half does not say how it streams"):
            Half().test_an_allowed_call_runs(trial, "stream")
