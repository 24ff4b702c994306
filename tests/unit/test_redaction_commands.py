"""Secrets that follow an option of a well-known program."""

from __future__ import annotations

import pytest

from broker.redaction.commands import given
from broker.redaction.texts import secrets_in


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("curl -u me:pw https://host/", "pw"),
        ("curl --user 'me:pw' https://host/", "pw"),
        ("curl https://host/ -u me:a:b", "a:b"),
        ("mysql -u root -phunter2 db", "hunter2"),
        ("mysqldump -p'my dog' db", "my dog"),
        ("sshpass -p hunter2 ssh host", "hunter2"),
        ("redis-cli -h host -a hunter2 ping", "hunter2"),
    ],
)
def test_it_is_found(text: str, secret: str) -> None:
    """The value of such an option is a secret."""
    assert [text[a:b] for a, b, _ in given(text)] == [secret]


@pytest.mark.parametrize(
    "text",
    [
        "docker run -u 1000:1000 image",
        "ls -p src; curl -u",
        "rsync -u host:path .",
        "curl https://host/ | docker run -u a:b x",
        "mysql -p db",
    ],
)
def test_the_letter_of_another_program_is_left_alone(text: str) -> None:
    """An option counts only within its own program's command."""
    assert list(given(text)) == []
    assert secrets_in(text) == []
