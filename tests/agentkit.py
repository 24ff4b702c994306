"""A sitting with the reference agent: a real session in a folder of a test, a scripted model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from broker.agentloop.starting import AgentAsked, AgentEnded, run_agent
from broker.capabilities.browser import ScriptedBrowser
from broker.capabilities.bundle import Capabilities
from broker.capabilities.clock import SystemClock
from broker.capabilities.credentials import NoCredentials
from broker.capabilities.fs import SystemFiles
from broker.capabilities.process import Answer, ScriptedProcesses
from broker.capabilities.terminal import FakeTerminal
from broker.capabilities.transcription import NoTranscription
from broker.home import Home
from broker.loopback.script import Script
from broker.loopback.server import LoopbackModel
from broker.receipt.entry import Entry
from broker.receipt.keys import load_key
from broker.receipt.verify import read_entries
from broker.records.model import ProviderRequest, ProviderResponse, ToolAudit
from broker.records.store import KeptRecords, read_records
from broker.sessions.ground import key_path

KEY = "sk-test-0123456789abcdef0123"
MODELS = {
    "anthropic/m-1": ("ANTHROPIC", "", "/v1/messages"),
    "openai/m-1": ("OPENAI", "/v1", "/v1/responses"),
    "local/m-1": ("LOCAL", "/v1", "/v1/chat/completions"),
}


class Typist(FakeTerminal):
    """A terminal whose person types lines, and presses Ctrl-C where the script says so."""

    def __init__(self, typed: Iterable[str | BaseException] = (), *, tty: bool = True) -> None:
        super().__init__(tty=tty)
        self.lines = list(typed)

    def read_line(self, prompt: str = "") -> str | None:
        """Return the next line; None when the script is over."""
        self.shown += prompt
        line = self.lines.pop(0) if self.lines else None
        if isinstance(line, BaseException):
            raise line
        return line


@dataclass
class Bench:
    """One folder with a workspace, the broker's files and a provider's address."""

    folder: Path
    url: str
    terminal: Typist = field(default_factory=Typist)
    processes: Sequence[Answer] = ()
    environ: dict[str, str] = field(default_factory=dict)
    config: str = ""

    @property
    def root(self) -> Path:
        """The workspace."""
        return self.folder / "ws"

    @property
    def home(self) -> Home:
        """The broker's folders."""
        return Home.find({"BROKER_HOME": str(self.folder / "home")})

    def world(self) -> Capabilities:
        """Return the capabilities of a run."""
        self.root.mkdir(exist_ok=True)
        (self.root / "a.txt").write_text("one\n", encoding="utf-8")
        self.home.config.mkdir(parents=True, exist_ok=True)
        settings = self.home.config / "broker.toml"
        settings.write_text(f'[models.local]\nurl = "{self.url}/v1"\n{self.config}', "utf-8")
        settings.chmod(0o600)
        environ = {"BROKER_HOME": str(self.folder / "home")}
        for name, (prefix, below, _) in MODELS.items():
            if not name.startswith("local"):
                environ[f"{prefix}_API_KEY"] = KEY
                environ[f"{prefix}_BASE_URL"] = self.url + below
        return Capabilities(
            SystemClock(),
            SystemFiles(),
            ScriptedProcesses(
                self.processes, environ={**environ, **self.environ}, cwd=str(self.root)
            ),
            NoCredentials(),
            ScriptedBrowser(()),
            NoTranscription(),
            self.terminal,
        )

    def run(self, prompt: str | None = None, **asked: Any) -> AgentEnded:
        """Run the agent."""
        given = {"model": "anthropic/m-1", "texts": [], **asked}
        return run_agent(AgentAsked(prompt, **given), self.world())

    @property
    def sids(self) -> list[str]:
        """The sessions, oldest first."""
        found = (path for path in self.home.sessions.iterdir() if path.is_dir())
        return [path.name for path in sorted(found, key=lambda path: path.stat().st_ctime_ns)]

    def kept(self, sid: str) -> KeptRecords:
        """Return the records of a session."""
        return read_records(SystemFiles().below(str(self.home.sessions / sid / "records")))

    def of(self, sid: str, kind: type) -> list[Any]:
        """Return the records of a kind."""
        return [record for record in self.kept(sid).records if isinstance(record, kind)]

    def requests(self, sid: str) -> list[ProviderRequest]:
        """Return what was asked in a session."""
        return self.of(sid, ProviderRequest)

    def responses(self, sid: str) -> list[ProviderResponse]:
        """Return what was answered."""
        return self.of(sid, ProviderResponse)

    def audits(self, sid: str) -> list[ToolAudit]:
        """Return the audits."""
        return self.of(sid, ToolAudit)

    def entries(self, sid: str) -> list[Entry]:
        """Return the verified entries of a session's receipt."""
        path = self.home.sessions / sid / "receipt.jsonl"
        key = load_key(key_path(self.home))
        return list(read_entries(path, key, self.home.heads / sid, sid=sid))

    def decisions(self, sid: str) -> list[tuple[str, str]]:
        """Return the tool and the answer of each decision."""
        found = (entry.data for entry in self.entries(sid) if entry.kind == "decision")
        return [(str(data["tool"]), str(data["decision"])) for data in found]


@contextmanager
def scripted(folder: Path, script: Script, **more: Any) -> Iterator[tuple[Bench, LoopbackModel]]:
    """Run a scripted model, and yield a bench that asks it."""
    with LoopbackModel(script) as model:
        yield Bench(folder, model.url, **more), model
