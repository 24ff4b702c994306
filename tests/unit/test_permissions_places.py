"""Which names hold credentials, and which control an agent."""

from __future__ import annotations

import pytest

from broker.permissions.places import controls_agents, holds_credentials


@pytest.mark.parametrize(
    "path",
    [
        "~/.ssh/known_hosts", ".aws/credentials", "a/.GNUPG/x", "/root/.kube/config", ".env",
        "web/.env.production", ".netrc", "$HOME/.git-credentials", "deploy/id_ed25519",
        "store.kdbx", "/etc/shadow", "/etc/./shadow", "/proc/self/environ", "/proc/1/environ",
        "/home/a/.docker/config.json", "x/.config/gh/hosts.yml", ".ssh",
    ],
)  # fmt: skip
def test_credentials_are_known_by_name(path: str) -> None:
    """Files that hold credentials are known wherever they lie, in any case of letters."""
    assert holds_credentials(path)


@pytest.mark.parametrize(
    "path",
    [
        "", "/", ".", "src/a.py", ".env.example", "a/.ENV.sample", "id_rsa.pub", "env", "ssh/x",
        "docs/aws/credentials.md", "config/gh", "proc/self/environ", "myid_rsa", ".envrc",
    ],
)  # fmt: skip
def test_names_that_only_look_alike_are_none(path: str) -> None:
    """A template, a public key and a page about credentials are not credentials."""
    assert not holds_credentials(path)


@pytest.mark.parametrize(
    ("path", "controls"),
    [
        (".git/hooks/pre-commit", True), ("sub/.Claude/settings.json", True), (".mcp.json", True),
        ("broker.toml", True), (".envrc", True), (".vscode/tasks.json", True), (".pi", True),
        (".github/workflows/ci.yml", False), (".gitignore", False), ("CLAUDE.md", False),
        ("src/opencode.py", False), ("", False),
    ],
)  # fmt: skip
def test_control_files_are_known_by_name(path: str, controls: bool) -> None:
    """What configures an agent or runs by itself controls; what people read and build does not."""
    assert controls_agents(path) == controls
