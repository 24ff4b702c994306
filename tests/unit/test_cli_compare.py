"""`broker compare` forks a run onto several models, verifies each, and shows what each took."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.loopback.server import LoopbackModel
from broker.trace.reader import RunReader
from broker.trace.runs import every
from tests.console import Console
from tests.replaykit import SCRIPT, Recorder


def test_bad_words(broker: Console) -> None:
    """Names given twice or empty, no run, and no fork point are bad input."""
    assert broker("compare", "--from", "1", "--models", "a,a").code == 2
    assert broker("compare", "--from", "1", "--models", "a,").code == 2
    assert broker("compare", "--from", "1", "--models", "a").code == 2
    assert broker("compare", "--models", "a").code == 2


@pytest.fixture
def recorder(tmp_path: Path, broker_home: Path) -> Recorder:
    """A small agent, and a recording of it."""
    found = Recorder(tmp_path, broker_home)
    assert found.record().code == 0
    return found


@pytest.mark.alone  # on a busy machine a shell may be seen before the call that it is of
def test_each_model_is_forked_verified_and_counted(recorder: Recorder, tmp_path: Path) -> None:
    """The verdict is the command's, a known price gives a cost, and an unknown one a dash."""
    answers = RunReader.open(every(recorder.home.runs)[0].folder).stream()
    first = next(event.seq for event in answers if event.type == "model.response")
    prices = tmp_path / "p.toml"
    prices.write_text("[one]\ninput = 2\noutput = 0\n", encoding="utf-8")
    words = ["compare", "--from", str(first), "--models", "one,two", "--into", str(tmp_path / "in")]
    verify = 'test -f b.txt && test "${PWD##*/}" = 1-one'
    with LoopbackModel(SCRIPT) as model:
        said = recorder.broker(*words, "--verify", verify, "--prices", str(prices), url=model.url)
    assert said.code == 1, said.err
    heads, one, two = (line.split() for line in said.out.splitlines())
    assert heads[:4] == ["model", "verdict", "calls", "refused"]
    assert one[:4] == ["one", "pass", "1", "0"]
    assert two[:4] == ["two", "fail", "1", "0"]
    assert two[7] == "-"
    assert float(one[7]) >= 0
    assert sorted(each.name for each in (tmp_path / "in").iterdir()) == ["1-one", "2-two"]
    assert len(every(recorder.home.runs)) == 3
