"""A provider that follows a script, and the model that asks it."""

from __future__ import annotations

import json
import runpy
import sys

import httpx2
import pytest

from broker.capabilities.clock import FakeClock
from broker.capabilities.memory import MemoryFiles
from broker.errors import InputError
from broker.harness.outcome import Result
from broker.harness.script import Script, read_script
from broker.harness.tools import TOOLS
from broker.records.recorder import Recorder
from broker.records.store import RecordStore
from broker.testing import provider as module
from broker.testing.provider import ATTEMPTS, URL, ProviderError, ScriptedProvider, WireModels

SCRIPT = read_script(
    {
        "lanes": {
            "main": [
                {"text": "I look.", "calls": [{"tool": "read", "arguments": {"path": "a"}},
                                              {"tool": "glob", "arguments": {"pattern": "*"}}]},
                {"text": "I think."},
                {"text": "Done."},
            ],
            "helper": [{"text": "Helped."}],
        }
    }
)  # fmt: skip


def models(
    script: Script = SCRIPT, errors: tuple[int, ...] = ()
) -> tuple[WireModels, ScriptedProvider]:
    """Return the models of a script, and the provider behind them."""
    provider = ScriptedProvider(script, errors)
    recorder = Recorder(RecordStore(MemoryFiles().below("/r")), FakeClock())
    return WireModels.over(provider, recorder, TOOLS, script), provider


def test_a_lane_is_told_turn_by_turn() -> None:
    """What comes over the wire is the lane of the script, whole and in order, and then None."""
    wire, provider = models()
    model = wire.model()
    first = model.turn([])
    assert first == SCRIPT.lanes["main"][0]
    assert model.turn([Result("done", "one"), Result("done", "two")]) == SCRIPT.lanes["main"][1]
    assert model.turn([]) == SCRIPT.lanes["main"][2]
    assert model.turn([]) is None
    assert len(provider.received) == 3
    told = json.loads(provider.received[1])["messages"][2]["content"]
    assert [(part["tool_use_id"], part["content"]) for part in told] == [
        ("toolu_main-0-0", "one"),
        ("toolu_main-0-1", "two"),
    ]


def test_a_subagent_follows_the_lane_that_its_prompt_names() -> None:
    """The lane is in the prompt, for the provider and for the records."""
    wire, _ = models()
    model = wire.model("please [[lane:helper]]")
    turn = model.turn([])
    assert turn is not None
    assert (turn.text, model.branch) == ("Helped.", "helper")
    with pytest.raises(InputError, match="no lane"):
        wire.model("please")


def test_a_conversation_that_ended_goes_on_when_it_is_told_more() -> None:
    """A check that did not pass is told to the model, which has nothing to add."""
    wire, provider = models(read_script({"lanes": {"main": [{"text": "Done."}]}}))
    model = wire.model()
    model.turn([])
    assert model.turn([]) is None
    assert model.turn([Result("failed", "the check failed")]) is None
    assert json.loads(provider.received[-1])["messages"][-1]["content"] == "the check failed"


@pytest.mark.parametrize(("count", "answered"), [(ATTEMPTS - 1, True), (ATTEMPTS, False)])
def test_a_busy_provider_is_asked_again(count: int, answered: bool) -> None:
    """A few times, and then the run fails."""
    wire, provider = models(errors=(529,) * count)
    if answered:
        assert wire.model().turn([]) is not None
    else:
        with pytest.raises(ProviderError, match="529"):
            wire.model().turn([])
    assert len(provider.received) == ATTEMPTS
    assert len(set(provider.received)) == 1


def test_a_refusal_is_not_asked_again() -> None:
    """What trying again does not mend is told at once."""
    wire, provider = models(errors=(401,))
    with pytest.raises(ProviderError, match="401"):
        wire.model().turn([])
    assert len(provider.received) == 1


def test_the_provider_is_a_transport_of_the_library() -> None:
    """Any client of the library can ask it."""
    with httpx2.Client(transport=ScriptedProvider(SCRIPT)) as client:
        answer = client.post(URL, json={"messages": [{"role": "user", "content": "hi"}]})
    assert answer.json()["stop_reason"] == "tool_use"


def test_without_the_extra_the_answer_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the library is not installed, an author reads what to install."""
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(ImportError, match=r"capability-broker\[harness\]"):
        runpy.run_path(module.__file__)
