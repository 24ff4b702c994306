"""A sitting put together: what is wrong is said before it begins, and each session is sealed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.errors import BrokerError, CapabilityError, ConfigError, InputError, ModelError
from broker.harness.exits import exit_code
from broker.loopback.script import Say, Use
from broker.records.recorder import SWITCH
from tests.agentkit import Bench, Typist, scripted
from tests.providerkit import fails, provider

SCRIPT = {"main": [Use([("read", {"path": "a.txt"})]), Say("Done.")]}
NOWHERE = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("asked", "config", "kind", "code"),
    [
        ({"model": "nobody/m"}, "", InputError, 2),
        ({"mode": "fast"}, "", InputError, 2),
        ({"said_yes": ["everything"]}, "", InputError, 2),
        ({"depth": 9}, "", InputError, 2),
        ({"verify": " "}, "", InputError, 2),
        ({"texts": ["tool=read"]}, "", InputError, 2),
        ({"resume": "zzz"}, "", InputError, 2),
        ({"model": "keyed/m"}, '[models.keyed]\nurl = "http://x.test"\nkey = "NO_KEY"\n',
         CapabilityError, 4),
        ({}, "[broker]\nenabled = false\n", ConfigError, 3),
        ({}, '[harness]\nmode = "yolo"\n', ConfigError, 3),
        ({}, '[mcp.x]\nurl = "ftp://x"\n', ConfigError, 3),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_before_anything_begins(
    asked: dict[str, Any], config: str, kind: type[BrokerError], code: int, tmp_path: Path
) -> None:
    """There is no session, no receipt, and an exit code that says of what kind it was."""
    bench = Bench(tmp_path, NOWHERE, Typist(tty=False), config=config)
    with pytest.raises(kind) as raised:
        bench.run("hi", **asked)
    assert exit_code(raised.value) == code
    assert not list(bench.home.sessions.glob("*"))


def test_nobody_at_a_terminal_gives_no_line(tmp_path: Path) -> None:
    """What comes through a pipe was typed by nobody (row 15)."""
    bench = Bench(tmp_path, NOWHERE, Typist(["hi"], tty=False))
    with pytest.raises(InputError, match="terminal"):
        bench.run()
    assert bench.terminal.lines == ["hi"]


def test_a_failed_line_leaves_a_sealed_session(tmp_path: Path) -> None:
    """Whatever ends a run, its receipt has its last line, and the person reads where it is."""
    with provider(fails(401, {"type": "authentication_error"})) as server:
        bench = Bench(tmp_path, server.url, Typist(tty=False))
        with pytest.raises(ModelError):
            bench.run("hi")
    (sid,) = bench.sids
    assert bench.entries(sid)[-1].data["reason"] == "interrupted"
    assert sid[:8] in bench.terminal.errors


def test_a_model_of_the_settings(tmp_path: Path) -> None:
    """`model` in the configuration is asked where none is typed, over the API of its table."""
    with scripted(tmp_path, SCRIPT, config='[harness]\nmodel = "local/m-9"\n') as (bench, model):
        ended = bench.run("[script main] go", model="")
        assert ended.document["model"] == "local/m-9"
        assert '"model": "m-9"' in model.asked[0]


def test_bodies_may_be_left_out(tmp_path: Path) -> None:
    """With the switch off no word is kept, and every digest is (row 46)."""
    with scripted(tmp_path, SCRIPT, environ={SWITCH: "0"}) as (bench, _):
        bench.run("[script main] go", quiet=True)
        (sid,) = bench.sids
        assert [r.body for r in bench.requests(sid)] == [None, None]
        assert all(r.sha256 for r in bench.requests(sid))
        with pytest.raises(InputError, match="BROKER_PROVIDER_AUDIT"):
            bench.run("more", resume=sid, texts=None)
    assert bench.terminal.shown == ""


def test_a_call_with_malformed_arguments_is_audited(tmp_path: Path) -> None:
    """A clean call leaves no audit, one that does not fit leaves one (rows 44 and 48)."""
    script = {"main": [Use([("read", {"path": 3}), ("read", {"path": "a.txt"})]), Say("Done.")]}
    with scripted(tmp_path, script) as (bench, _):
        bench.run("[script main] go")
    (audit,) = bench.audits(bench.sids[0])
    assert (audit.tool, audit.outcome) == ("read", "invalid_arguments")


def test_hooks_of_a_workspace_wait_for_trust(tmp_path: Path) -> None:
    """What a workspace brings along runs when a person trusts it, and else is named (row 31)."""
    bench = Bench(tmp_path, NOWHERE)
    (bench.root / ".broker").mkdir(parents=True)
    hook = '[[hook]]\nname = "no"\nwhen = "permission"\ncommand = ["true"]\n'
    (bench.root / ".broker/hooks.toml").write_text(hook, encoding="utf-8")
    bench.terminal = Typist(["n", "/quit"])
    bench.run()
    assert "do not run" in bench.terminal.errors
