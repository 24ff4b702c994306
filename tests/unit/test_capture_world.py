"""All that is recorded of the world, together: one run with everything in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.capabilities.clock import SystemClock
from broker.capture import world as module
from broker.capture.telling import RecorderClient
from broker.capture.treestore import environ
from broker.capture.world import RecordedWorld
from broker.errors import LaunchError
from broker.sandbox.carrying import Egressed
from tests.sandboxkit import needed
from tests.worldkit import SECRETS, Recorded, recorded

PATH = os.environ.get("PATH", os.defpath)


class Lived:
    """A run whose world is recorded."""

    def __init__(self, place: Path) -> None:
        self.run: Recorded = recorded(place)
        self.space = place / "space"
        self.space.mkdir()
        self.said: list[str] = []
        self.given = {"PATH": PATH, "SHELL": "/bin/sh", "HOME": str(place)}
        self.world = RecordedWorld(
            self.run.writer, self.space, self.given, closed=[], clock=SystemClock(),
            say=self.said.append,
        )  # fmt: skip

    def begin(self) -> dict[str, str]:
        """Begin, and return the environment of the agent."""
        self.world.begin()
        self.world.start()
        return {**self.given, **self.world.variables}

    def kinds(self) -> list[str]:
        """Return the types of the events."""
        return [each["type"] for each in self.run.lines()]


@pytest.fixture
def lived(tmp_path: Path) -> Iterator[Lived]:
    """A world that ends with the test."""
    found = Lived(tmp_path)
    yield found
    found.world.end()


def test_everything_is_recorded(lived: Lived) -> None:
    """Shells, MCP, spans, connections and files of one run are in its trace, and it is sound."""
    environment = lived.begin()
    lived.run.wait(1, "fs.snapshot")
    lived.world.turned(lived.run.writer.new_turn())
    subprocess.run(
        ["sh", "-c", "echo hello > new.txt; echo done"], env=environment, cwd=lived.space,
        check=True, capture_output=True,
    )  # fmt: skip
    teller = RecorderClient.find(environment)
    assert teller is not None
    teller.tell({"kind": "mcp.request", "server": "s", "method": "ping", "id": 1}, b"{}")
    teller.close()
    with open(environment["ORCA_AGENT_SPANS"], "a", encoding="utf-8") as file:
        file.write('{"kind":"trace.start","trace_id":"t"}\n')
    lived.world.network.hear(Egressed(1, "example.org", 443, "CONNECT"))
    lived.run.wait(1, "mcp.request")
    lived.world.end()
    reader = lived.run.sealed()
    assert reader.problems() == []
    assert reader.integrity() == "ok"
    assert {
        *("shell.exec", "shell.result", "mcp.request", "net.request", "note"),
        *("fs.snapshot", "fs.change"),
    } <= set(lived.kinds())
    assert lived.said == []


def test_nothing_is_left_behind(lived: Lived, tmp_path: Path) -> None:
    """At the end the folder that was made for the run is gone, with its socket and its shims."""
    environment = lived.begin()
    (place,) = lived.world.shown
    assert os.stat(place).st_mode & 0o777 == 0o700
    assert Path(environment["BROKER_RECORDER"]).is_socket()
    lived.world.end()
    assert not os.path.exists(place)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["runs", "space"]


def test_a_layer_that_cannot_begin_is_off_alone(
    lived: Lived, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where shells cannot be recorded, that is said, and files are recorded all the same."""

    def fail(_: object) -> None:
        raise LaunchError("no room")

    monkeypatch.setattr(module.Shims, "make", fail)
    environment = lived.begin()
    assert environment["PATH"] == PATH
    assert lived.said == ["shells are not recorded: no room"]
    lived.run.wait(1, "fs.snapshot")
    (note,) = lived.run.lines("note")
    assert note["attrs"] == {"kind": "layer off", "layer": "shell", "why": "no room"}


def test_without_a_folder_only_files_are_recorded(
    lived: Lived, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no folder can be made for the run, or git is missing, the rest goes on."""

    def fail(**_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.tempfile, "mkdtemp", fail)
    monkeypatch.setenv("PATH", "/nowhere")
    assert lived.begin() == lived.given
    assert len(lived.said) == 2
    lived.world.turned(1)
    lived.world.end()
    assert {each["attrs"]["layer"] for each in lived.run.lines("note")} == {"shell", "files"}


def test_anothers_spans_are_left_to_him(tmp_path: Path) -> None:
    """A file that the person follows already stays the one that spans are written to."""
    lived = Lived(tmp_path)
    lived.given["ORCA_AGENT_SPANS"] = "/theirs"
    assert lived.begin()["ORCA_AGENT_SPANS"] == "/theirs"
    lived.world.end()


def test_planted_secrets_are_in_no_written_byte(lived: Lived) -> None:
    """Row 76: forty forms, planted wherever something is recorded, are in no byte of the run."""
    for name, secret in SECRETS.items():
        (lived.space / f"{name}.py").write_text(f"key = '{secret}'\n", encoding="utf-8")
        (lived.space / f"{name}.yaml").write_text(f"- {secret}\n", encoding="utf-8")
    (lived.space / ".env").write_text(_assigned(), encoding="utf-8")
    environment = lived.begin()
    lived.run.wait(1, "fs.snapshot")
    for name, secret in SECRETS.items():
        with (lived.space / f"{name}.py").open("a", encoding="utf-8") as file:
            file.write(f"other = '{secret}'\n")
    script = "; ".join(f"echo {s}; echo {s} >&2" for s in SECRETS.values())
    subprocess.run(
        ["sh", "-c", script, *SECRETS.values()], env=environment, check=True, capture_output=True
    )
    big = "cat " + " ".join(f"'{lived.space}/{name}.py'" for name in SECRETS)
    subprocess.run(["sh", "-c", f"{big}; {big}"], env=environment, check=True, capture_output=True)
    teller = RecorderClient.find(environment)
    assert teller is not None
    everything = json.dumps({"env": dict(SECRETS), "words": list(SECRETS.values())}).encode()
    for kind in ("mcp.request", "mcp.response"):
        teller.tell({"kind": kind, "server": "s", "id": 1}, everything)
        for secret in SECRETS.values():
            teller.tell({"kind": kind, "server": secret, "method": secret, "id": secret}, b"{}")
    teller.close()
    with open(environment["ORCA_AGENT_SPANS"], "a", encoding="utf-8") as file:
        for secret in SECRETS.values():
            said = {
                "kind": "span",
                "type": "AgentSpanData",
                "span_id": secret,
                "data": {"name": secret},
            }
            file.write(json.dumps(said) + "\n")
    for secret in SECRETS.values():
        url = f"http://example.org/?q={secret}"
        lived.world.network.hear(Egressed(1, "example.org", 80, "GET", url))
    lived.world.turned(lived.run.writer.new_turn())
    lived.run.wait(2, "fs.snapshot")
    lived.world.end()
    assert lived.run.sealed().problems() == []
    assert len(lived.run.lines("fs.change")) == len(SECRETS)
    content = written(lived.run.folder)
    found = {name for name, secret in SECRETS.items() if secret.encode() in content}
    assert found == set()
    assert content.count(b"[hidden ") > 10 * len(SECRETS)


def _assigned() -> str:
    return "".join(f"{name.upper().replace(' ', '_')}={s}\n" for name, s in SECRETS.items())


def written(folder: Path) -> bytes:
    """Return every byte of a run, and every object of its store as it is behind its compression."""
    found = [place.read_bytes() for place in sorted(folder.rglob("*")) if place.is_file()]
    assert any(zlib.compress(b"")[:1] == content[:1] for content in found)  # loose objects
    git = ["git", f"--git-dir={folder}/fs"]
    for words in (
        ["cat-file", "--batch-all-objects", "--batch"],
        ["log", "--all", "-p", "--format=%B"],
    ):
        found.append(
            subprocess.run([*git, *words], capture_output=True, check=True, env=environ("/")).stdout
        )
    return b"\n".join(found)


def test_a_world_is_told_in_a_process_of_its_own(lived: Lived) -> None:
    """The recorded shell of another language's agent is one that it finds by its name."""
    environment = lived.begin()
    script = "import subprocess; subprocess.run(['sh', '-c', 'exit 3'])"
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)
    assert lived.run.wait(1, "shell.result")[0]["attrs"]["exit_code"] == 3


AGENT = (
    "import os, subprocess\n"
    "subprocess.run(['sh', '-c', 'echo new > new.txt; exit 3'])\n"
    "open(os.environ['ORCA_AGENT_SPANS'], 'a').write('{\"kind\":\"trace.end\"}')\n"
)


def _run(place: Path, *words: str) -> tuple[str, list[dict[str, Any]]]:
    """Run a small agent by `broker run` in a process of its own; return its words, and events."""
    space, home = place / "work", place / "home"
    space.mkdir()
    (space / "agent.py").write_text(AGENT, encoding="utf-8")
    ended = subprocess.run(
        [
            *(sys.executable, "-c", "from broker.cli.main import main; main()", "run", *words),
            *("--", "/usr/bin/env", "python3", "agent.py"),
        ],
        cwd=space,
        env={**os.environ, "BROKER_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    (run,) = (home / "state" / "runs").iterdir()
    text = (run / "events.jsonl").read_text(encoding="utf-8")
    assert [each.name for each in (home / "run").glob("broker-*")] == []
    return ended.stderr, [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("sandbox", [False, True])
def test_a_run_records_its_world(tmp_path: Path, sandbox: bool) -> None:
    """A run, also within walls, has its shells, files and spans in its trace, and that is all."""
    words = ["--scope", "paths=**", "--scope", "hosts=example.org", "--scope", "tools=sh"]
    if sandbox:
        needed("bubblewrap")
        words += ["--sandbox", "require"]
    _, events = _run(tmp_path, *words)
    by_type = {each["type"]: each for each in events}
    assert by_type["shell.exec"]["attrs"]["argv"][0] == "sh"
    assert by_type["shell.result"]["attrs"]["exit_code"] == 3
    assert by_type["note"]["attrs"]["kind"] == "spans.trace.end"
    assert [each["attrs"]["path"] for each in events if each["type"] == "fs.change"] == ["new.txt"]
    first, last = (each["attrs"] for each in events if each["type"] == "fs.snapshot")
    assert (first["files"], last["files"]) == (1, 2)


def test_a_run_that_is_not_recorded_has_no_shims(tmp_path: Path) -> None:
    """With `--no-record` the agent finds its own shells, and no run is kept."""
    ended = subprocess.run(
        [
            *(sys.executable, "-c", "from broker.cli.main import main; main()", "run"),
            *("--no-record", "--", "/bin/sh", "-c", "command -v sh"),
        ],
        cwd=tmp_path,
        env={**os.environ, "BROKER_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "broker-" not in ended.stdout
    assert not (tmp_path / "home" / "state" / "runs").exists()
