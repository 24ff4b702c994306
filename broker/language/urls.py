"""
The one reading of a URL: which host and port it means.

Decided here: which texts are URLs, and the canonical spelling of a host. Names are never
looked up: where a name leads is beyond a name check. Not decided here: host patterns
(``broker.hosts``), which arguments are URLs (``broker.resolve``), redirects (every hop is a
call of its own).

Rules a maintainer keeps: a URL that two parsers could read differently is refused before any
parser sees it; then this reading and the URL standard's (ada-url) must agree. Reading is
total: a ``Url`` or a ``UrlError``. ``ada_url`` is imported only when a URL is read, or a host
that is not plain ASCII.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from broker.errors import InputError
from broker.language.patterns import first_unseen
from broker.limits import MAX_HOST_CHARS, MAX_LABEL_CHARS, MAX_URL_CHARS, MAX_URL_FRONT_CHARS

DEFAULT_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}
"""The schemes of the web; a URL of another scheme fits no pattern."""


class UrlError(InputError):
    """A text is no URL, or one that parsers read differently; ``reason`` says why."""

    code = "url"

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason, hint=hint)
        self.reason = reason
        self.hint = hint


# ── hosts ──

_NAME_CHARS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_.")
_IPV6_CHARS: Final = frozenset("0123456789abcdefABCDEF:.")
_DIGITS: Final = frozenset("0123456789")
_HEX: Final = frozenset("0123456789abcdef")


def _by_standard(host: str) -> str:
    from ada_url import URL  # noqa: PLC0415 (costs 10 ms; most patterns are plain ASCII)

    try:
        return str(URL(f"https://{host}/").hostname)
    except ValueError:
        raise UrlError(f"`{host[:80]}` is no lawful host name") from None


def read_host(spelled: str) -> str:
    """
    Return the canonical text of a host: lower-case ASCII, without the closing dot.

    Raises:
        UrlError: the text is no lawful host name, or an address in an odd spelling.

    >>> read_host("Bücher.example."), read_host("[::0:1]")
    ('xn--bcher-kva.example', '[::1]')
    """
    if spelled.startswith("["):
        inner = spelled[1:-1]
        if not inner or spelled[-1] != "]" or not _IPV6_CHARS.issuperset(inner):
            raise UrlError(f"`{spelled[:80]}` is no IPv6 address")
        return _by_standard(spelled)
    plain = spelled.isascii() and "xn--" not in spelled.lower()
    name = spelled.lower() if plain else _by_standard(spelled)
    return _checked_name(name.removesuffix("."), spelled)


def _checked_name(name: str, spelled: str) -> str:
    if not name:
        raise UrlError("there is no host")
    if name[0] == "-":
        raise UrlError("a host name does not begin with a dash")  # programs take it for an option
    if not _NAME_CHARS.issuperset(name):
        odd = next(c for c in name if c not in _NAME_CHARS)
        raise UrlError(f"`{odd}` cannot stand in a host name")
    labels = name.split(".")
    if "" in labels:
        raise UrlError("a label of the host name is empty")
    if len(name) > MAX_HOST_CHARS or max(map(len, labels)) > MAX_LABEL_CHARS:
        raise UrlError("the host name is too long")
    if _is_number(labels[-1]) and not (spelled == name and is_ipv4(name)):
        raise UrlError(
            "an address is spelled with four decimal numbers, a name does not end in a number"
        )
    return name


def _is_number(label: str) -> bool:
    """Return whether the URL standard takes a host that ends in this label for an address."""
    return _DIGITS.issuperset(label) or (label.startswith("0x") and _HEX.issuperset(label[2:]))


def is_ipv4(host: str) -> bool:
    """Return whether a host is an IPv4 address, spelled with four plain decimal numbers."""
    numbers = host.split(".")
    return len(numbers) == 4 and all(
        n and _DIGITS.issuperset(n) and len(n) <= 3 and int(n) <= 255 and str(int(n)) == n
        for n in numbers
    )


# ── URLs ──


@dataclass(frozen=True, slots=True)
class Url:
    """
    What a URL reaches.

    ``keys`` are the spellings that patterns are matched against: the host alone when the
    port is the scheme's default, and ``host:port`` always; none when the scheme is not of
    the web. ``tidy`` is the URL as the standard writes it, which the tool should receive.
    """

    scheme: str
    host: str
    port: int
    keys: tuple[str, ...]
    tidy: str


def read_url(text: str) -> Url:
    r"""
    Return the one reading of a URL.

    Raises:
        UrlError: the text is no URL, or parsers read it differently.

    >>> read_url("https://user@Example.com./a?b").keys
    ('example.com', 'example.com:443')
    >>> read_url("https://evil.test\\@example.com/")
    Traceback (most recent call last):
    ...
    broker.language.urls.UrlError: a backslash before the path
    """
    _refuse_unreadable(text)
    scheme, colon, rest = text.partition(":")
    if not colon or not _is_scheme(scheme) or (rest[:1] in _DIGITS and "." in scheme):
        raise UrlError("the address has no scheme", _with_scheme(text))
    scheme = scheme.lower()
    if scheme not in DEFAULT_PORTS:
        return Url(scheme, "", 0, (), text)
    host, port = _read_front(_front(rest))
    default = DEFAULT_PORTS[scheme]
    keys: tuple[str, ...]
    if port is None or port == default:
        keys, port, shown = (host, f"{host}:{default}"), default, ""
    else:
        shown = f":{port}"
        keys = (host + shown,)
    return Url(scheme, host, port, keys, _agreed(text, scheme, host, shown))


def _refuse_unreadable(text: object) -> None:
    if not isinstance(text, str):
        raise UrlError("an address must be text")
    if len(text) > MAX_URL_CHARS:
        raise UrlError(f"an address has at most {MAX_URL_CHARS} characters")
    if text.isascii() and text.isprintable():
        return
    if any(c < " " or c == "\x7f" or "\ud800" <= c <= "\udfff" for c in text):
        raise UrlError("a control character in the address")


def _is_scheme(text: str) -> bool:
    plain = text.replace("+", "").replace("-", "").replace(".", "")
    return text.isascii() and text[:1].isalpha() and plain.isalnum()


def _with_scheme(text: str) -> str:
    plain = len(text) <= 200 and text[:1].isalnum() and " " not in text
    return f"https://{text}" if plain else "write the whole address, beginning with `https://`"


def _front(rest: str) -> str:
    """Return what stands between ``//`` and the path: user, host and port."""
    if not rest.startswith("//"):
        raise UrlError("two slashes must follow the scheme")
    front = rest[2:]
    for stop in "/?#":
        front = front.partition(stop)[0]
    if len(front) > MAX_URL_FRONT_CHARS:
        raise UrlError(f"more than {MAX_URL_FRONT_CHARS} characters before the path")
    if "\\" in front:
        raise UrlError("a backslash before the path")
    if front.count("@") > 1:
        raise UrlError("more than one `@` before the path")
    if front.isascii() and front.isprintable() and " " not in front:
        return front
    if first_unseen(front) >= 0 or any(map(str.isspace, front)):
        raise UrlError("a blank or an invisible character before the path")
    from unicodedata import normalize  # noqa: PLC0415 (most addresses are ASCII)

    plain = normalize("NFKC", front)
    if any(plain.count(c) > front.count(c) for c in "/?#@:\\%[]"):
        raise UrlError("a character before the path that some parsers turn into a separator")
    return front


def _read_front(front: str) -> tuple[str, int | None]:
    user, _, spelled = front.rpartition("@")
    if "[" in user or "]" in user:
        raise UrlError("a bracket before the host")
    if "%" in spelled:
        raise UrlError("a `%` in the host")
    if spelled.startswith("["):
        closed = spelled.find("]") + 1
        host, colon, port = spelled[:closed], spelled[closed : closed + 1], spelled[closed + 1 :]
        if colon not in ("", ":") or not closed:
            raise UrlError("the brackets of an IPv6 address are not closed")
    else:
        host, _, port = spelled.partition(":")
    return read_host(host), read_port(port)


def read_port(text: str) -> int | None:
    """
    Return the number of a port, None for an empty text.

    Raises:
        UrlError: the text is no decimal number up to 65535.
    """
    if not text:
        return None
    number = text.lstrip("0") or "0"
    if not _DIGITS.issuperset(text) or len(number) > 5 or int(number) > 65_535:
        raise UrlError(f"`{text[:20]}` is no port")
    return int(number)


def _agreed(text: str, scheme: str, host: str, port: str) -> str:
    """Return the URL as the standard writes it; refuse it if the standard reads another host."""
    from ada_url import URL  # noqa: PLC0415 (only when a URL is read)

    try:
        tidy = str(URL(text).href)
    except ValueError:
        raise UrlError("the address is malformed") from None
    # What the standard writes is plain: `scheme://user@host:port/`, the default port left out.
    theirs = tidy.split("/", 3)
    reached = theirs[2].rpartition("@")[2]
    if theirs[:2] != [scheme + ":", ""] or reached not in (host + port, f"{host}.{port}"):
        raise UrlError("parsers read the address differently")
    return tidy
