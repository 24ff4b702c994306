"""Where the secrets of a text are."""

from __future__ import annotations

import time

import pytest

from broker.redaction.texts import secrets_in

FOUND = [
    ("API_KEY=abc", "abc"),
    ('api_key = "a b"', "a b"),
    ("'password': 'x y',", "x y"),
    (r"{\"password\": \"hun\\\"ter\", \"a\":1}", r"hun\\\"ter"),
    (r'{"password": "hun\"ter", "a": 1}', r"hun\"ter"),
    ("password => hunter2", "hunter2"),
    ("password := hunter2", "hunter2"),
    ("<password>hunter2</password>", "hunter2"),
    ("--client-secret hunter2 --x", "hunter2"),
    ("Authorization: Bearer abcd.efg", "Bearer abcd.efg"),
    ("authorization: Digest username=x, response=y\nnext", "Digest username=x, response=y"),
    ("Cookie: a=b; c=d\r\nX: y", "a=b; c=d"),
    ("x-api-key: abc", "abc"),
    ("bearer ABCDEF", "ABCDEF"),
    ("Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
    ("config['token'] = 'abc'", "abc"),
    ("client.api_key=abc", "abc"),
    ("password: 'not closed\nnext", "not closed"),
    ("\u0130\u0130 PASSWORD=abc", "abc"),
    ("x" * 200 + ".password=abc", "abc"),
    ("PASSWORD=[abc", "[abc"),
    ("PASSWORD=secret", "secret"),
    ("PASSWORD=abc(def", "abc(def"),
    ("password=hunter.two", "hunter.two"),
    ("password=self.api_key9", "self.api_key9"),
    ('token: "`token=`"', "`token=`"),
    ("PASSWORD={abc}", "{abc"),
    ('argument `passwords[]` of `set`: "a" is not "b"; tools: set(x=1)', '"a" is not "b"'),
    ('argument `"my password"` of `set`: "a" is not "b"\nnext', '"a" is not "b"'),
]


@pytest.mark.parametrize(("text", "secret"), FOUND)
def test_a_secret_is_found_whole(text: str, secret: str) -> None:
    """The value is found from its first character to its last, and nothing else."""
    assert [text[s.start : s.end] for s in secrets_in(text)] == [secret]


@pytest.mark.parametrize(
    "text",
    [
        "def login(password: str, token: str | None = None) -> bool:",
        '{"password": {"type": "string"}, "required": ["password"]}',
        "the password",
        "client = Client(api_key=api_key, token=self.auth_token, cookies: CookieTypes)",
        'key = os.environ["API_KEY"]; api_key = os.environ.get("API_KEY")',
        "give it `api_key=`, `auth_token=` or `credentials=`, each quoted",
        "tokens: list[Token] = []",
        "a basic understanding of bearer tokens",
        'password: ""',
        "password=",
        "password",
        "max_tokens: 5, token_count=3",
        "see https://host/path:8080 and a@b",
        "PASSWORD=[hidden] TOKEN='[hidden name 0123abcd]'",
        "--password --next",
        'argument `to` of `send_password`: "Eve" is not in intent; tools: send_password(x)',
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    """Types, schemas, empty values and what is hidden already are left alone."""
    assert secrets_in(text) == []


@pytest.mark.parametrize(
    "unit",
    ["secret-", "token='", 'token="\\"', "eyJ", "://", "password=a ", "bearer ", "curl -u a",
     "-----BEGIN PRIVATE KEY-----", "<password>", "\u0130key:", "\\", "a=", "key",
     "argument `password` of `a`: ", "argument `a` of `password`: b ", "argument `"],
)  # fmt: skip
def test_time_is_linear(unit: str) -> None:
    """Text made to be slow takes about twice as long when it is twice as long."""

    def took(chars: int) -> float:
        text = unit * (chars // len(unit))
        began = time.process_time()
        secrets_in(text)
        return time.process_time() - began

    small = min(took(100_000) for _ in range(3))
    large = min(took(400_000) for _ in range(3))
    assert large < 16 * small + 0.2  # a quadratic one takes 16 times as long and then some
    assert large < 2
