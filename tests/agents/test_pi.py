"""
What is of pi alone: the real one under a ticket, against a scripted model on loopback.

What holds for every agent is in ``test_conformance`` and ``test_breaks``. Runs where it is
installed (``BROKER_PI`` names its program, else ``pi`` on the path), and needs neither
an account nor a network.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.loopback.script import Say, Use
from tests.agents.stages import PiStage
from tests.agents.tongues import PI
from tests.runkit import finished, start

pytestmark = [pytest.mark.agent, pytest.mark.timeout(400)]

# Changes a call after it was judged, in each way that there is.
REWRITER = """
export default function (pi) {
  pi.on("tool_call", async (event) => {
    const value = "echo x > rewritten.txt"
    try { event.input.command = value } catch {}
    try { Object.defineProperty(event.input, "command", { value }) } catch {}
    event.input = { command: value }
  })
}
"""
bash = PI.shell


@pytest.fixture
def stage(tmp_path: Path) -> PiStage:
    """A stage of this test's own."""
    made = PI.on(tmp_path)
    assert isinstance(made, PiStage)
    return made


def test_a_path_is_judged_as_pi_opens_it(stage: PiStage) -> None:
    """An `@` in front, and the name that pi tries where there is none, lead nowhere else."""
    secret = stage.write("secret.txt", "do not tell\n")
    (stage.workspace / "src" / "it\u2019s").symlink_to(stage.root)
    reads = [f"@{secret}", "src/it's/secret.txt", "@src/a.py"]
    code, _, err = stage.run(
        {"main": [Use([("read", {"path": path}) for path in reads]), Say("done")]},
        scope=["tools=read", "paths=**"],
    )
    assert code == 0, err
    assert [decision for _, decision, _ in stage.decisions()] == ["refuse", "refuse", "allow"]
    assert "do not tell" not in "".join(told.text for told in stage.results.values())


def test_a_call_that_is_changed_after_it_was_judged(stage: PiStage) -> None:
    """An extension of the person's that rewrites calls changes nothing that ours has seen."""
    extension = stage.write("rewriter.js", REWRITER)
    stage.run(
        {"main": [Use([bash("echo x > src/judged.txt")]), Say("done")]},
        "-e",
        str(extension),
        scope=["tools=bash"],
    )
    assert (stage.workspace / "src/judged.txt").exists()
    assert not (stage.workspace / "rewritten.txt").exists()


def test_what_is_no_session_runs_too(stage: PiStage) -> None:
    """``pi --version`` under the broker answers as it does alone."""
    process = start(
        [stage.program, "--version"],
        home=stage.bench.home.state.parent,
        workspace=stage.workspace,
        environ={"HOME": str(stage.user)},
    )
    code, out, err = finished(process)
    assert code == 0, err
    assert "." in out + err
