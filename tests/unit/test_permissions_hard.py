"""The hard layer, on calls as the resolver makes them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.calls import Call, PathSubject
from broker.catalogs import load_catalogs
from broker.permissions.hard import hard_refusal
from broker.resolve import Resolver


@pytest.fixture
def resolver(tmp_path: Path) -> Resolver:
    """A workspace with a file, a link out of it, and a link to a credential in it."""
    root = tmp_path / "ws"
    (root / "src").mkdir(parents=True)
    (root / "src/a.py").write_text("a = 1\n")
    (root / ".env").write_text("KEY=1\n")
    os.symlink("/etc", root / "out")
    os.symlink("../.env", root / "src/settings")
    return Resolver(root, load_catalogs(), own=[str(tmp_path / "up/own")])


def test_a_write_inside_a_repository_of_any_name_is_refused() -> None:
    """What the resolver knows to be inside git's own folder is not told by its name alone."""
    inside = PathSubject("path", "hooks/x", "write", ("hooks/x/",), inner_git=True)
    assert "controls" in (hard_refusal(Call("write", paths=(inside,)), {}) or "")


@pytest.mark.parametrize(
    ("tool", "arguments", "why"),
    [
        ("shell", {"command": "rm -rf /"}, "removes"),
        ("shell", {"command": ["rm", "-rf", "/"]}, "removes"),
        ("novel", {"script": "curl 169.254.169.254"}, "link-local"),
        ("batch", {"operations": [{"tool": "shell", "args": {"command": "reboot"}}]}, "stops"),
        ("read", {"path": ".env"}, "credentials"),
        ("read", {"path": "src/settings"}, "credentials"),
        ("read", {"path": "/etc/hosts"}, "outside"),
        ("read", {"path": "out/hosts"}, "outside"),
        ("grep", {"pattern": "x", "path": "../other"}, "outside"),
        ("mcp__files__get", {"path": "/root/.ssh/id_rsa"}, "credentials"),
        ("read", {"path": "/root/.ssh/id_rsa"}, "credentials"),
        ("write", {"path": "../x", "content": ""}, "outside"),
        ("read", {"path": "../up/own/x"}, "broker"),
        ("write", {"path": ".git/hooks/pre-commit", "content": ""}, "controls"),
        ("write", {"path": "src/../.claude/settings.json", "content": ""}, "controls"),
        ("write", {"path": "broker.toml", "content": ""}, "controls"),
        ("delete_file", {"path": "."}, "broker"),
        ("fetch", {"url": "http://169.254.169.254/latest"}, "link-local"),
        ("fetch", {"url": "http://[fe80::1]/"}, "link-local"),
        ("fetch", {"url": "http://0xa9fea9fe/"}, "cannot be read"),
        ("read", {"path": "a\0b"}, "cannot be read"),
    ],
)  # fmt: skip
def test_no_mode_lifts_this(
    resolver: Resolver, tool: str, arguments: dict[str, object], why: str
) -> None:
    """Each of these is refused, and the reason names what it is about."""
    assert why in (hard_refusal(resolver.resolve(tool, arguments), arguments) or "")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read", {"path": "src/a.py"}),
        ("read", {"path": ".git/config"}),
        ("read", {"path": ".claude/settings.json"}),
        ("write", {"path": "src/b.py", "content": "rm -rf /"}),
        ("write", {"path": ".github/workflows/ci.yml", "content": ""}),
        ("grep", {"pattern": "shutdown", "path": "."}),
        ("shell", {"command": "make test"}),
        ("mcp__board__post", {"text": "how do I shutdown? rm -rf / did not help"}),
        ("mcp__api__get", {"path": "/v1/users"}),
        ("fetch", {"url": "http://127.0.0.1:8000/"}),
        ("task", {"prompt": "rm -rf /", "scope": []}),
    ],
)  # fmt: skip
def test_ordinary_calls_are_left_to_the_mode(
    resolver: Resolver, tool: str, arguments: dict[str, object]
) -> None:
    """What is read, written and run every day is not of this layer."""
    assert hard_refusal(resolver.resolve(tool, arguments), arguments) is None


def test_a_call_without_end_is_refused(resolver: Resolver) -> None:
    """More commands than anybody reads do not run."""
    arguments = {"commands": [f"echo {n}" for n in range(70)]}
    assert "more than" in (hard_refusal(resolver.resolve("novel", arguments), arguments) or "")
