"""Which opinions there are: from the user's configuration or a typed option, and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.config import load_config
from broker.errors import BrokerError, ConfigError, InputError, UnverifiableError
from broker.limits import MAX_OPINION_BYTES, MAX_OPINIONS
from broker.opinions.authzen import AuthZen
from broker.opinions.cedar import Cedar
from broker.opinions.settings import (
    OpinionSetting,
    check_still_there,
    files_of,
    named,
    opinions,
    typed_opinions,
    wrong_address,
)
from tests.pdpkit import DecisionPoint, about, certificate
from tests.unit.test_config import write

URL = "https://pdp.example.com/access/v1/evaluation"


def _private(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


def test_tables_are_read(tmp_path: Path) -> None:
    """Addresses, keys and policies are read as written, files beside the configuration."""
    write(
        tmp_path,
        f'[opinions.corp]\nurl = "{URL}"\nbearer = "corp.key"\nca = "/etc/ca.pem"\n'
        'within_s = 1\narguments = true\n[opinions.house]\ncedar = "house.cedar"\n',
    )
    assert load_config(tmp_path).opinions == (
        OpinionSetting(
            "corp", URL, None, tmp_path / "corp.key", Path("/etc/ca.pem"), 1.0, arguments=True
        ),
        OpinionSetting("house", cedar=tmp_path / "house.cedar"),
    )


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[opinions.a]\n", "one of both"),
        (f'[opinions.a]\nurl = "{URL}"\ncedar = "x"\n', "one of both"),
        ('[opinions.a]\nurl = ""\n', "`url` is text"),
        ("[opinions.a]\nurl = 5\n", "`url` is text"),
        (f'[opinions.a]\nurl = "{URL}"\ntoken = "hunter2"\n', "no such setting `token`"),
        (f'[opinions.a]\nurl = "{URL}"\nwithin_s = 0\n', "above 0"),
        (f'[opinions.a]\nurl = "{URL}"\nwithin_s = 11\n', "at most 10"),
        (f'[opinions.a]\nurl = "{URL}"\nwithin_s = true\n', "number of seconds"),
        (f'[opinions.a]\nurl = "{URL}"\nwithin_s = nan\n', "above 0"),
        (f'[opinions.a]\nurl = "{URL}"\narguments = "no"\n', "true or false"),
        ('[opinions.a]\ncedar = "x"\nwithin_s = 1\n', "nothing to set"),
        ('[opinions.a]\nurl = "http://pdp.example.com/"\n', "encrypted"),
        ('[opinions]\na = "x"\n', r"\[opinions.a\]"),
        ("opinions = 5\n", "no such setting"),
        ("[opinions.A]\n", "name it with"),
        ("[opinion]\n", r"\[opinions.NAME\]"),
    ],
)
def test_what_is_not_understood_names_its_place(tmp_path: Path, text: str, word: str) -> None:
    """Anything else is an error with the line, never a session without the opinion."""
    write(tmp_path, text)
    with pytest.raises(ConfigError, match=word) as caught:
        load_config(tmp_path)
    assert "line " in caught.value.message


@pytest.mark.parametrize(
    ("url", "word"),
    [
        (URL, ""),
        ("http://127.0.0.1:8080/x", ""),
        ("http://[::1]:8080/x", ""),
        ("http://localhost/x", ""),
        ("http://localhost.evil.net/x", "encrypted"),
        ("http://127.0.0.1.evil.net/x", "encrypted"),
        ("http://10.0.0.1/x", "encrypted"),
        ("https://me:pw@h/x", "no user"),
        ("https://h/x#y", "no user"),
        ("https://h/ x", "no user"),
        ("https://h:99999/", "no address"),
        ("https://[::1/", "no address"),
        ("file:///etc/passwd", "begins with"),
        ("pdp.example.com", "begins with"),
        ("", "begins with"),
    ],
)
def test_addresses(url: str, word: str) -> None:
    """Only an encrypted address, or one of this machine, and none with a password in it."""
    assert word in wrong_address(url)
    assert bool(word) == bool(wrong_address(url))


def test_typed_opinions(tmp_path: Path) -> None:
    """A typed text is an address or a file of policies; anything else is an error."""
    found = typed_opinions([URL, "a/house.cedar"], tmp_path)
    assert found == (
        OpinionSetting("typed-1", URL),
        OpinionSetting("typed-2", cedar=tmp_path / "a/house.cedar"),
    )
    for text in ("house.toml", "http://pdp.example.com/", ""):
        with pytest.raises(InputError, match=r"\.cedar"):
            typed_opinions([text], tmp_path)


def test_nothing_comes_from_the_workspace(tmp_path: Path) -> None:
    """A policy that an agent can write is refused, through a link too."""
    workspace = tmp_path / "ws"
    workspace.mkdir()
    policy = _private(workspace / "p.cedar", "permit (principal, action, resource);")
    (tmp_path / "link").symlink_to(workspace)
    for path in (policy, tmp_path / "link" / "p.cedar"):
        with pytest.raises(ConfigError, match="lies in the workspace"):
            opinions([OpinionSetting("house", cedar=path)], workspace)
    with pytest.raises(ConfigError, match="lies in the workspace"):
        opinions([OpinionSetting("corp", URL, bearer=workspace / "key")], workspace)


def test_files_that_others_may_write_are_no_policy(tmp_path: Path) -> None:
    """A policy of someone else's, a missing one, a huge one and one that is no text are told."""
    ws = tmp_path / "ws"
    policy = _private(tmp_path / "p.cedar", "permit (principal, action, resource);")
    (made,) = opinions([OpinionSetting("house", cedar=policy)], ws)
    assert isinstance(made, Cedar)
    policy.chmod(0o666)
    with pytest.raises(UnverifiableError):
        opinions([OpinionSetting("house", cedar=policy)], ws)
    policy.chmod(0o600)
    policy.write_bytes(b"\xff")
    with pytest.raises(UnverifiableError, match="UTF-8"):
        opinions([OpinionSetting("house", cedar=policy)], ws)
    policy.write_bytes(b"/" * (MAX_OPINION_BYTES + 1))
    with pytest.raises(UnverifiableError, match="more than"):
        opinions([OpinionSetting("house", cedar=policy)], ws)
    with pytest.raises(UnverifiableError, match="there is no policy"):
        opinions([OpinionSetting("house", cedar=tmp_path / "none.cedar")], ws)


def test_a_key_is_read_anew_and_is_private(tmp_path: Path) -> None:
    """A key may be changed while a session runs; one that others can read is not used."""
    key = _private(tmp_path / "corp.key", "one\n")
    with DecisionPoint(lambda _: True) as point:
        setting = OpinionSetting("corp", point.url, bearer=key)
        (made,) = opinions([setting], tmp_path / "ws")
        from broker.calls import Call

        assert made.ask(about(Call("think"))).said == "allow"
        key.write_text("two", encoding="utf-8")
        assert made.ask(about(Call("think"))).said == "allow"
        assert [each["authorization"] for each in point.headers] == ["Bearer one", "Bearer two"]
        key.chmod(0o644)
        assert made.ask(about(Call("think"))).said == "none"
        for text in ("", "a\nb", "ä"):
            key.chmod(0o600)
            key.write_text(text, encoding="utf-8")
            with pytest.raises(ConfigError, match="holds no key"):
                opinions([setting], tmp_path / "ws")


def test_an_authority_of_ones_own(tmp_path: Path) -> None:
    """A certificate file is checked when the session begins."""
    cert, _ = certificate(tmp_path)
    (made,) = opinions([OpinionSetting("corp", URL, ca=cert)], tmp_path / "ws")
    assert isinstance(made, AuthZen)
    with pytest.raises(ConfigError, match="no certificates"):
        opinions([OpinionSetting("corp", URL, ca=tmp_path / "none")], tmp_path / "ws")


def test_those_of_this_process_are_asked_first(tmp_path: Path) -> None:
    """A policy here is evaluated before anything leaves the machine."""
    policy = _private(tmp_path / "p.cedar", "")
    found = opinions([OpinionSetting("a", URL), OpinionSetting("b", cedar=policy)], tmp_path / "w")
    assert [each.name for each in found] == ["b", "a"]


def test_names_and_numbers(tmp_path: Path) -> None:
    """A name is had once, and a session asks only so many."""
    with pytest.raises(InputError, match="have the name"):
        opinions([OpinionSetting("a", URL), OpinionSetting("a", URL)], tmp_path)
    many = [OpinionSetting(f"a{n}", URL) for n in range(MAX_OPINIONS + 1)]
    with pytest.raises(InputError, match="at most"):
        opinions(many, tmp_path)


def test_a_session_that_goes_on_keeps_its_opinions() -> None:
    """An opinion that is gone, or is had from elsewhere, is told by name; a new one is welcome."""
    before = named([OpinionSetting("corp", URL + "?key=s"), OpinionSetting("h", cedar=Path("/h"))])
    assert before == {"corp": URL, "h": "/h"}
    same = [OpinionSetting("corp", URL), OpinionSetting("h", cedar=Path("/h"))]
    check_still_there(before, [*same, OpinionSetting("new", URL)])
    for now in (same[:1], [same[0], OpinionSetting("h", cedar=Path("/other"))], []):
        with pytest.raises(InputError, match=r"the opinion `(h|corp)`"):
            check_still_there(before, now)


def test_all_files_are_closed_to_tools(tmp_path: Path) -> None:
    """The names of a policy, a key and a certificate are returned, links followed."""
    real = tmp_path / "real"
    real.mkdir()
    os.symlink(real, tmp_path / "link")
    found = files_of([OpinionSetting("a", cedar=tmp_path / "link" / "p.cedar")])
    assert set(found) == {str(tmp_path / "link/p.cedar"), str(real / "p.cedar")}


def test_nothing_but_broker_errors(tmp_path: Path) -> None:
    """A policy that is a folder is told like any other unsafe file."""
    (tmp_path / "p.cedar").mkdir()
    with pytest.raises(BrokerError):
        opinions([OpinionSetting("house", cedar=tmp_path / "p.cedar")], tmp_path / "ws")
