"""
Commands that no mode lets run: what they break is not mended by reading a receipt.

Decided here: which command lines are known to be catastrophic, or reach for credentials. Not
decided here: what a command otherwise does, which cannot be told from its text.

This is a net for accidents, not a wall: a command line has more spellings than any list. What
holds a command that means harm is a scope without a shell, or a sandbox that holds the scope.

Rules a maintainer keeps: a text that cannot be split as a shell splits it is split at its blanks,
never passed over; a command inside a command is looked at too; what is too long, too deep or too
much to be looked at is refused, so that looking has an end.
"""

from __future__ import annotations

import ipaddress
import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from broker.permissions.places import holds_credentials

_MAX_CHARS: Final = 65_536  # characters of one command line
_MAX_DEPTH: Final = 8  # commands inside commands
_MAX_INNER: Final = 100  # commands inside one command, side by side
_MAX_PROGRAMS: Final = 200  # words of one command line that are looked at as programs
_INNER: Final = re.compile(r"[$<>]\(([^()]*)\)|`([^`]*)`")
_BOMB: Final = re.compile(r"([\w.:]{1,64})\(\)\{\1\|\1&\};\1")
_DEVICE: Final = re.compile(
    r"/dev/(?!null$|zero$|full$|u?random$|std(?:in|out|err)$|tty\w*$|fd/|pts/|shm/|ptmx$)\S+"
)
_SYSTEM: Final = frozenset(
    """
    / /bin /boot /dev /etc /home /lib /lib64 /opt /proc /root /sbin /srv /sys /usr /var
    /Applications /Library /System /Users ~ $HOME ${HOME}
    """.split()  # noqa: SIM905 - a list of words reads better than a page of quotes
)
_SHELLS: Final = frozenset(["sh", "bash", "dash", "zsh", "ksh", "ash", "fish"])
_STOPS: Final = frozenset(["shutdown", "reboot", "halt", "poweroff"])
_STARTERS: Final = frozenset(
    """
    sudo doas env command exec nohup time nice ionice setsid stdbuf timeout xargs busybox builtin
    ! { if then else elif do while until
    """.split()  # noqa: SIM905 - as above
)
_FORMATS: Final = frozenset(
    ["wipefs", "fdisk", "sfdisk", "sgdisk", "parted", "mkswap", "shred", "blkdiscard"]
)
_LOOKED_AT: Final = re.compile(
    r"rm|find|chmod|chown|chgrp|mv|kill|tee|dd|eval|mkfs.*|[&|]*>{1,2}[&|]*"
    rf"|{'|'.join(sorted(_SHELLS | _FORMATS))}",
    re.DOTALL,
)
_METADATA: Final = frozenset(
    ["metadata.google.internal", "metadata.goog", "100.100.100.200", "fd00:ec2::254"]
)


def catastrophe(text: str, depth: int = 0) -> str | None:
    """
    Return why a command line must not run in any mode, or None.

    >>> catastrophe("cd /tmp && sudo rm -rf --no-preserve-root /")
    'it removes `/` with everything below it'
    >>> catastrophe("rm -rf build") is None
    True
    """
    if depth > _MAX_DEPTH:
        return "it holds commands inside commands inside commands"
    if len(text) > _MAX_CHARS:
        return f"it has more than {_MAX_CHARS} characters"
    if _BOMB.search(re.sub(r"\s+", "", text)):
        return "it starts itself without end"
    inner_left = _MAX_INNER
    while (found := _INNER.search(text)) is not None:
        if not (inner_left := inner_left - 1):
            return f"it holds {_MAX_INNER} commands inside one"
        inner = catastrophe(found.group(1) or found.group(2) or "", depth + 1)
        if inner is not None:
            return inner
        text = f"{text[: found.start()]} {text[found.end() :]}"
    programs_left = _MAX_PROGRAMS
    for words in simple_commands(text):
        start = _start(words)
        if start < len(words) and (why := _stops(words[start:])) is not None:
            return why
        for n, word in enumerate(words):
            name = posixpath.basename(word)
            if not _LOOKED_AT.fullmatch(name):
                continue
            if not (programs_left := programs_left - 1):
                return f"it names {_MAX_PROGRAMS} programs that may do harm"
            if (why := _at(name, words[n + 1 :], depth)) is not None:
                return why
        for word in words:
            for part in {word, word.split("=", 1)[-1], word.rsplit("@", 1)[-1]}:
                if holds_credentials(part):
                    return f"it reaches for `{part}`, which holds credentials"
            if (host := _link_local_in(word)) is not None:
                return f"it reaches for a link-local address: `{host}`"
    return None


def simple_commands(text: str) -> Iterator[list[str]]:
    """
    Yield the words of each simple command of a command line.

    >>> list(simple_commands("a 'b c' && d|e # f"))
    [['a', 'b c'], ['d'], ['e']]
    """
    for line in text.replace("\\\n", " ").splitlines():
        words: list[str] = []
        for word in _split(line):
            if word.startswith("#"):
                break
            if word and not word.strip(";&|()"):
                yield words
                words = []
            else:
                words.append(word)
        yield words


def _split(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|()<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:  # an open quote, as inside a here-document
        return re.split(r"[\s;&|()\"']+", line)


def _at(name: str, rest: Sequence[str], depth: int) -> str | None:
    """Return what is wrong with a program and the words after it."""
    if name in _SHELLS or name == "eval":
        for n, word in enumerate(rest):
            if name == "eval" or re.fullmatch(r"-\w*c", word):
                script = " ".join(rest) if name == "eval" else " ".join(rest[n + 1 : n + 2])
                return catastrophe(script, depth + 1)
        return None
    if name == "rm" and (_flag(rest, "rR", "--recursive") or "--no-preserve-root" in rest):
        return _system(rest, "it removes `{}` with everything below it")
    if name == "find" and ("-delete" in rest or ("-exec" in rest and "rm" in rest)):
        return _system(rest, "it removes what it finds in `{}`")
    if name in ("chmod", "chown", "chgrp") and _flag(rest, "R", "--recursive"):
        return _system(rest, "it changes who may use `{}` and everything below it")
    if name == "mv":
        return _system(rest[:-1], "it moves `{}` away")
    if name == "kill" and "-1" in rest[1:]:
        return "it ends every process"
    redirects = name.strip("&|") in (">", ">>")
    if redirects or name.startswith("mkfs") or name in _FORMATS or name in ("tee", "dd"):
        for word in rest[:1] if redirects else rest:
            place = word.removeprefix("of=")
            if (place != word or name != "dd") and _DEVICE.fullmatch(place):
                return f"it overwrites `{place}`"
    return None


def _start(words: Sequence[str]) -> int:
    """Return where the program stands, behind what only starts it."""
    n = 0
    started = False
    while n < len(words):
        name = posixpath.basename(words[n])
        option = started and (name.startswith("-") or re.fullmatch(r"[\d.]+[smhd]?", name))
        if not (option or name in _STARTERS or re.match(r"[A-Za-z_]\w*=", words[n])):
            break
        started = started or name in _STARTERS
        n += 1
    return n


def _stops(words: Sequence[str]) -> str | None:
    """Return whether a program stops the machine; its name elsewhere is only a word."""
    name, rest = posixpath.basename(words[0]), words[1:]
    stops = name in _STOPS or (name == "systemctl" and bool(_STOPS & set(rest)))
    if stops or (name in ("init", "telinit") and rest[:1] in (["0"], ["6"])):
        return "it stops the machine"
    return None


def _flag(rest: Sequence[str], letters: str, long: str) -> bool:
    return any(
        word == long
        or (word.startswith("-") and not word.startswith("--") and set(word) & set(letters))
        for word in rest
    )


def _system(rest: Sequence[str], what: str) -> str | None:
    """Return what happens to the first word that is a folder of the system or a home."""
    for word in rest:
        bare = word.rstrip("*").rstrip("/") or "/"
        place = posixpath.normpath(bare) if bare.startswith("/") else bare
        place = "/" + place.lstrip("/") if place.startswith("/") else place
        known = place in _SYSTEM or re.fullmatch(r"/(?:home|Users)/[^/]+", place)
        if known and word.strip("*"):
            return what.format(word)
    return None


def _link_local_in(word: str) -> str | None:
    for part in re.split(r"[/@=,?#\s]+", word):
        for host in (part, part.rsplit(":", 1)[0]):
            if link_local(host):
                return host
    return None


def link_local(host: str) -> bool:
    """
    Return whether a host is of the machine's own link, where clouds answer with credentials.

    >>> link_local("169.254.169.254"), link_local("[fe80::1]"), link_local("10.0.0.1")
    (True, True, False)
    """
    name = host.strip("[]").rstrip(".").casefold()
    if name in _METADATA:
        return True
    try:
        address = ipaddress.ip_address(name.split("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return address.is_link_local or (mapped is not None and mapped.is_link_local)
