"""The user's configuration."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.config import ModelSetting, ServerSetting, load_config
from broker.errors import ConfigError
from broker.limits import MAX_CONFIG_BYTES


def write(folder: Path, text: str | bytes) -> Path:
    """Write the configuration, for its owner only."""
    path = folder / "broker.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(0o600)
    return path


def test_without_a_file_the_broker_is_enabled(tmp_path: Path) -> None:
    """A missing file, or a file that says nothing, means the defaults."""
    assert load_config(tmp_path).enabled
    write(tmp_path, "# nothing\n[broker]\n")
    assert load_config(tmp_path).enabled


@pytest.mark.parametrize("value", [True, False])
def test_enabled_is_read(tmp_path: Path, value: bool) -> None:
    """The one setting is read as it is written."""
    write(tmp_path, f"[broker]\nenabled = {str(value).lower()}\n")
    assert load_config(tmp_path).enabled is value


@pytest.mark.parametrize("value", [True, False])
def test_canary_is_read(tmp_path: Path, value: bool) -> None:
    """Agents are tried first unless it says otherwise; the veto does not depend on it."""
    assert load_config(tmp_path).canary
    write(tmp_path, f"[broker]\ncanary = {str(value).lower()}\n")
    found = load_config(tmp_path)
    assert (found.canary, found.enabled) == (value, True)


def test_an_auditor_is_named_beside_the_configuration(tmp_path: Path) -> None:
    """The auditor's file is looked for beside the configuration, or where it is said to be."""
    write(tmp_path, '[broker]\nforward = "auditor.pub"\n')
    assert load_config(tmp_path).forward == tmp_path / "auditor.pub"
    write(tmp_path, '[broker]\nforward = "/keys/auditor.pub"\n')
    assert load_config(tmp_path).forward == Path("/keys/auditor.pub")


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("[broker]\nenabled = true\nenable = false\n", 3, "enable"),
        ("\n[brokre]\nenabled = false\n", 2, "brokre"),
        ("enabled = false\n", 1, "enabled"),
        ('[broker]\n\nenabled = "false"\n', 3, "without quotes"),
        ("[broker]\nenabled = 0\n", 2, "true or false"),
        ("[broker]\ncanary = 'no'\n", 2, "true or false"),
        ("[broker]\nenabled = \n", 2, "line 2"),
        ("[broker]\nx.y = 1\n", 2, "x"),
        ("broker = 1\n", 1, "broker"),
        ("[broker]\nforward = true\n", 2, "in quotes"),
        ('[broker]\nforward = ""\n', 2, "in quotes"),
    ],
)
def test_what_is_not_understood_is_an_error_with_its_line(
    tmp_path: Path, text: str, line: int, word: str
) -> None:
    """A misspelt setting never falls back to the default."""
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path)
    assert str(path) in str(caught.value)
    assert f"line {line}" in str(caught.value)
    assert word in str(caught.value)


def test_bytes_that_are_not_text_are_an_error(tmp_path: Path) -> None:
    """A file that is not UTF-8, or has no end, is not read in part."""
    write(tmp_path, b"[broker]\nenabled = true\n# \xff\n")
    with pytest.raises(ConfigError, match="line 3"):
        load_config(tmp_path)
    write(tmp_path, b"#" * (MAX_CONFIG_BYTES + 1))
    with pytest.raises(ConfigError, match="more than"):
        load_config(tmp_path)


def test_a_file_that_others_may_write_is_an_error(tmp_path: Path) -> None:
    """Nobody else may switch the broker off."""
    write(tmp_path, "[broker]\nenabled = false\n").chmod(0o666)
    with pytest.raises(ConfigError, match="written by others"):
        load_config(tmp_path)


def test_what_is_not_a_file_is_an_error(tmp_path: Path) -> None:
    """A pipe is not waited for, and a folder is not read."""
    os.mkfifo(tmp_path / "broker.toml", 0o600)
    with pytest.raises(ConfigError, match="plain file"):
        load_config(tmp_path)
    (tmp_path / "broker.toml").unlink()
    (tmp_path / "broker.toml").mkdir()
    with pytest.raises(ConfigError):
        load_config(tmp_path)


def test_anchors_are_read(tmp_path: Path) -> None:
    """Each kind has its own settings, in any number, under the names that their owner gave."""
    write(
        tmp_path,
        """
[broker]
enabled = true
[anchors.audit]
kind = "git"
remote = "git@example.com:audit.git"
[anchors.tsa-1]
kind = "rfc3161"
url = "https://tsa.example.com"
roots = "roots.pem"
[anchors.w]
kind = "witness"
url = "https://w.example.com"
vkey = "w+00000000+BA=="
""",
    )
    found = load_config(tmp_path)
    assert found.enabled
    assert [(a.name, a.kind) for a in found.anchors] == [
        ("audit", "git"),
        ("tsa-1", "rfc3161"),
        ("w", "witness"),
    ]
    assert found.anchors[1].settings == {"url": "https://tsa.example.com", "roots": "roots.pem"}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[anchors.a]\n", "needs a `kind`"),
        ('[anchors.a]\nkind = "ftp"\n', "git, rfc3161, witness"),
        ('[anchors.a]\nkind = "git"\n', "needs `remote`"),
        ('[anchors.a]\nkind = "git"\nremote = 1\n', "in quotes"),
        ('[anchors.a]\nkind = "git"\nremote = ""\n', "in quotes"),
        ('[anchors.a]\nkind = "git"\nremote = "r"\nurl = "u"\n', "no such setting `url`"),
        ('[anchors.A]\nkind = "git"\nremote = "r"\n', "name it with"),
        ('[anchors."a/b"]\nkind = "git"\nremote = "r"\n', "name it with"),
        ('[anchors]\na = "git"\n', "write `[anchors.a]`"),
        ("anchors = 1\n", "[anchors.NAME]"),
    ],
)
def test_an_anchor_that_is_not_understood_is_an_error(tmp_path: Path, text: str, word: str) -> None:
    """A receipt that its owner believes to be anchored must not be one that nobody anchors."""
    write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path)
    assert word in str(caught.value)


def test_models_and_servers_are_read(tmp_path: Path) -> None:
    """A server of models, an MCP server that is started, and one with an address."""
    write(
        tmp_path,
        '[harness]\nmodel = "local/m"\n'
        '[models.local]\nurl = "http://localhost:1/v1"\n'
        '[models.keyed]\nurl = "https://x.test"\napi = "messages"\nkey = "THEIR_KEY"\n'
        '[mcp.git]\ncommand = ["mcp-server-git", "-v"]\nenv = { A = "b" }\n'
        '[mcp.docs]\nurl = "https://docs.test/mcp"\nheaders = { Authorization = "x" }\n',
    )
    found = load_config(tmp_path)
    assert (found.model, found.mode) == ("local/m", None)
    assert found.models == (
        ModelSetting("local", "http://localhost:1/v1"),
        ModelSetting("keyed", "https://x.test", "messages", "THEIR_KEY"),
    )
    assert found.servers == (
        ServerSetting("git", ("mcp-server-git", "-v"), environ={"A": "b"}),
        ServerSetting("docs", url="https://docs.test/mcp", headers={"Authorization": "x"}),
    )


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[harness]\nmodel = 3\n", "PROVIDER/MODEL"),
        ("[models.x]\n", "url"),
        ('[models.x]\nurl = "ftp://x"\n', "http"),
        ('[models.x]\nurl = "http://x"\napi = "gemini"\n', "chat, responses, messages"),
        ('[models.x]\nurl = "http://x"\nkey = "sk-12 34"\n', "never the key"),
        ('[models.x]\nurl = "http://x"\ntoken = "t"\n', "token"),
        ('[models]\nx = "http://x"\n', "[models.x]"),
        ('[models."A B"]\nurl = "http://x"\n', "a-z"),
        ("[mcp.x]\n", "one of both"),
        ('[mcp.x]\ncommand = "git"\n', "list of words"),
        ('[mcp.x]\ncommand = ["a"]\nurl = "http://x"\n', "one of both"),
        ('[mcp.x]\nurl = "x"\n', "http"),
        ('[mcp.x]\nurl = "http://x"\nenv = { A = "b" }\n', "beside a `command`"),
        ('[mcp.x]\ncommand = ["a"]\nenv = { A = 1 }\n', "table of texts"),
        ('[mcp.x]\ncommand = ["a"]\ntrust = true\n', "trust"),
    ],
)
def test_models_and_servers_that_are_not_understood(tmp_path: Path, text: str, word: str) -> None:
    """Each fault names the file, the place and what is there instead."""
    write(tmp_path, text)
    with pytest.raises(ConfigError) as raised:
        load_config(tmp_path)
    assert word in str(raised.value)
    assert "line" in str(raised.value)
