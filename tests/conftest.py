"""Shared fixtures: where outside test data lies, and a home folder that is not the user's."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=200,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "deep", deadline=None, max_examples=20_000, suppress_health_check=[HealthCheck.too_slow]
)
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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests were left out and why: a skip is not a pass."""
    reasons = Counter(
        str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        for report in terminalreporter.stats.get("skipped", [])
    )
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"{count} skipped: {reason.removeprefix('Skipped: ')}")
