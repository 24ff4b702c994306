"""Shared fixtures: where outside test data lies, and a home folder that is not the user's."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent
LACKING = "the SDK "  # how the suite of adapters says what a framework has no notion of

# What a machine may lack. A test that is skipped for any other reason fails the run.
MAY_BE_SKIPPED = {
    "Cedar is not installed",
    "Claude Code is not installed",
    "Codex is not installed",
    "Codex has no tool that fetches",
    "Codex takes no gateway in the place of an address",
    "Cline CLI is not installed",
    "Cline CLI runs plugins with Node, and it is not installed",
    "Gemini CLI is not installed",
    "Copilot CLI is not installed",
    "Qwen Code is not installed",
    "bash is not installed",
    "bubblewrap cannot work here",
    "no compiler is installed",
    "this is no Mac",
    "this kernel has no Landlock",
    "node is not installed",
    "fsspec is not installed",
    "moto is not installed",
    "opencode is not installed",
    "pi is not installed",
    "pi has no MCP servers",
    "pi has no subagents",
    "pi has no tool that fetches",
    "Ray is not installed",
    "the framework of this adapter is not installed",
    "the MCP conformance suite is not installed",
    "the MCP conformance suite needs Node.js 22 or newer",
    "the MCP server for clients is not installed",
    "the MCP server for files is not installed",
    "the MCP server for git is not installed",
    "the MCP server for pages is not installed",
    "mounting a small file system takes root",
    "no small file system can be mounted here",
    "only root can give a file away",
    "root may write anywhere",
    "s3fs is not installed",
    "system calls cannot be traced here",
    "the kernel shows no open files here",
    "the shared test data is not beside the project",
}

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "deep", deadline=None, max_examples=20_000, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("quick", settings.get_profile("ci"), max_examples=25)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of outside test data beside the project; tests that need it skip without."""
    place = Path(os.environ.get("BROKER_SHARED", ROOT.parent / "shared"))
    if not place.is_dir():
        pytest.skip("the shared test data is not beside the project")
    return place


@pytest.fixture(autouse=True)
def broker_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test gets a broker home of its own, so that none touches the user's."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("BROKER_HOME", str(home))
    for name in ("BROKER_SOCKET", "BROKER_SESSION", "BROKER_TICKET"):
        monkeypatch.delenv(name, raising=False)
    return home


def skip_reasons(config: pytest.Config) -> Counter[str]:
    """Return why tests were skipped in this run, and how many for each reason."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    reports = reporter.stats.get("skipped", []) if reporter else []
    return Counter(
        str(
            report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        ).removeprefix("Skipped: ")
        for report in reports
    )


def foreseen(reason: str) -> bool:
    """Whether a test may be skipped for a reason; its author names what a framework lacks."""
    return reason in MAY_BE_SKIPPED or reason.startswith(LACKING)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A skip for a reason that is not in the table fails the run: a skip is not a pass."""
    if not all(map(foreseen, skip_reasons(session.config))):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests were left out, and why."""
    for reason, count in sorted(skip_reasons(terminalreporter.config).items()):
        new = "" if foreseen(reason) else " (not in MAY_BE_SKIPPED, so this run fails)"
        terminalreporter.write_line(f"{count} skipped: {reason}{new}")
