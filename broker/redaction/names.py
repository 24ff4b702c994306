"""
Which names speak of a secret.

Decided here: whether the value under a name is to be hidden, from the words of the name alone:
``openaiApiKey`` is `openai`, `api`, `key`. Not decided here: what the value looks like.

Rules a maintainer keeps: where a word may be either, it counts as a secret, unless the vocabulary
of models and schemas uses it every day (`max_tokens`, `eos_token`, `token_count`); a name is cut
before it is read, so that its length costs nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import Final

MAX_NAME_CHARS: Final = 96  # characters in a name that is looked at; longer ones are no names

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

# A word that makes every name a secret's, wherever it stands.
_ALWAYS: Final = frozenset(
    """
    password passwords passwd pwd passphrase passcode secret secrets credential credentials
    cookie cookies authorization bearer apikey apikeys apitoken accesskey accesstoken authtoken
    bearertoken clientsecret privatekey refreshtoken secretkey sessiontoken mnemonic dsn jwt
    """.split()  # noqa: SIM905 - a list of words reads better than a page of quotes
)
# What may stand before `key`, at any distance: `AWS_SECRET_ACCESS_KEY`, `x-api-key`.
_KEY_OF: Final = frozenset(
    """
    access account api auth client deploy encryption master private secret service shared signing
    ssh storage subscription webhook
    """.split()  # noqa: SIM905 - as above
)
# A plural that holds secrets; `input_tokens` is a number.
_TOKENS_OF: Final = frozenset({"access", "api", "auth", "bearer", "refresh", "session"})
# A token of a vocabulary, or a place in a list.
_PLAIN_TOKEN: Final = frozenset(
    {"bos", "eos", "mask", "next", "pad", "page", "per", "sep", "special", "stop", "unk"}
)
_TOKEN_END: Final = frozenset({"hash", "key", "secret", "string", "value"})
# A name that ends so speaks about the secret, not in its stead: `token_type`, `password_policy`.
_ABOUT: Final = frozenset(
    """
    budget count counts details enabled expires expiry length limit max min policy required ttl
    type types usage
    """.split()  # noqa: SIM905 - as above
)
_PASS_OF: Final = frozenset(
    """
    admin db ftp http login mail my mysql pg postgres proxy redis root smtp ssh sudo user
    """.split()  # noqa: SIM905 - as above
)
# Neighbours that are a secret together.
_PAIRS: Final = frozenset(
    [
        ("database", "url"),
        ("db", "url"),
        ("redis", "url"),
        ("broker", "url"),
        ("amqp", "url"),
        ("mongo", "uri"),
        ("mongo", "url"),
        ("mongodb", "uri"),
        ("mongodb", "url"),
        ("connection", "string"),
        ("seed", "phrase"),
        ("recovery", "code"),
        ("recovery", "codes"),
        ("backup", "codes"),
    ]
)
_ENDINGS: Final = ("password", "passwd", "passphrase", "secret", "apikey", "privatekey")


@lru_cache(maxsize=4_096)
def secret_name(name: str) -> bool:
    """
    Whether what stands under a name is to be hidden.

    >>> [secret_name(n) for n in ("openaiApiKey", "DATABASE_URL", "max_tokens", "public_key")]
    [True, True, False, False]
    """
    if len(name) > MAX_NAME_CHARS:
        return False
    words = [word.lower() for word in _WORD.findall(name)]
    while words and words[-1].isdigit():  # `PASSWORD2`
        words.pop()
    if not words or words[-1] in _ABOUT:
        return False
    return (
        not _ALWAYS.isdisjoint(words)
        or any(word.endswith(_ENDINGS) for word in words)
        or any(pair in _PAIRS for pair in pairwise(words))
        or _key(words)
        or _token(words)
        or (words[-1] == "pass" and len(words) > 1 and words[-2] in _PASS_OF)
        or name.startswith("_auth")
    )


def mentions_secret(name: str) -> bool:
    """
    Whether a name has anything to do with secrets, as a type's or a variable's may.

    >>> mentions_secret("AccessTokenProvider"), mentions_secret("Provider")
    (True, False)
    """
    words = {word.lower() for word in _WORD.findall(name[:MAX_NAME_CHARS])}
    return not words.isdisjoint(_ALWAYS | {"key", "keys", "token", "tokens"})


def _key(words: list[str]) -> bool:
    last = max((at for at, word in enumerate(words) if word in ("key", "keys")), default=0)
    return not _KEY_OF.isdisjoint(words[:last])


def _token(words: list[str]) -> bool:
    for at, word in enumerate(words):
        before = words[at - 1] if at else ""
        if word == "tokens" and before in _TOKENS_OF:
            return True
        joined = word.endswith("token") and word != "token"  # `mytoken`, `npmtoken`
        if (word == "token" or joined) and before not in _PLAIN_TOKEN:
            if all(after in _TOKEN_END for after in words[at + 1 :]):
                return True
    return False
