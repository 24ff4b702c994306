"""
Policies: scopes with a name, a sentence that says what each is for, and tests of their own.

Decided here: what a policy file holds, where a name is looked for, and whether a policy keeps
its own expectations. Deliberately not: what its scope texts mean (``broker.scope``), what a
call comes to (whoever hands in ``decide``), when a policy is loaded.

Rules a maintainer keeps: an error names the file and the line; a policy that has a fault in any
line gives no texts at all; including can only narrow, because the included texts are put beside
the others and all must hold.

A file holds one entry a line: ``KEY=VALUE``, ``@other`` to include a policy, ``expect allow
CALL`` or ``expect refuse CALL  # caveat``. ``#`` begins a comment; the first one says what the
policy is for.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from broker.calls import Decision
from broker.errors import PolicyError, ScopeError
from broker.language.pieces import Piece, json_value
from broker.language.scopehelp import nearest
from broker.limits import MAX_POLICY_BYTES, MAX_POLICY_DEPTH, MAX_SCOPE_TEXTS
from broker.scope import check_text, parse_pieces, parse_scope

SUFFIX: Final = ".scope"

# What an `expect refuse` line may name behind its `#`: the caveat that must refuse.
REFUSERS: Final = (
    *("tools", "paths", "reads", "writes", "hosts", "calls", "until"),
    *("call", "own", "enforcement", "session"),
)

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
# A quoted item (also one that is never closed), or the beginning of a comment.
_COMMENT: Final = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\Z|\\\Z)|(?:\A| )#')

Decide = Callable[[str, dict[str, object], str], Decision]


@dataclass(frozen=True, slots=True)
class Expect:
    """
    One test that a policy carries: a call, and what it must come to.

    ``line`` is what a person would have typed, for conditions that look into it.
    """

    where: str
    text: str
    allowed: bool
    tool: str
    arguments: Mapping[str, object]
    caveat: str | None = None
    line: str = ""


@dataclass(frozen=True, slots=True)
class Policy:
    """
    A scope with a name: what it is for, its ``KEY=VALUE`` texts, and its tests.

    ``texts`` are flat: an included policy's texts stand where it was named. ``source`` is the
    file, for messages.
    """

    name: str
    about: str
    texts: tuple[str, ...]
    expects: tuple[Expect, ...]
    source: str = ""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a policy may be found: folders, the shipped ones, and the folder of its includer."""

    folders: tuple[Path, ...]
    base: Path | None
    groups: Mapping[str, frozenset[str]] | None
    chain: tuple[str, ...] = ()


def find_policy(
    name: str,
    folders: Sequence[Path] = (),
    *,
    base: Path | None = None,
    groups: Mapping[str, frozenset[str]] | None = None,
) -> Policy:
    """
    Return the policy of a name, or of a path that begins with ``/``, ``./`` or ``../``.

    A name is looked for in the folders, in order, and then among the shipped policies.

    Args:
        name: as typed behind the ``@``.
        folders: the user's own policies.
        base: the folder that a relative path starts from; the current one when absent.
        groups: the tools behind each ``@group``; when absent, group names are not looked up.

    Raises:
        PolicyError: no such policy, an unreadable file, or policies that include each other.
        ScopeError: a line is malformed; ``where`` holds the file and the line.

    >>> find_policy("locked-down").texts[0]
    'tools=@reads'
    """
    return _find(name, _Place(tuple(folders), Path() if base is None else base, groups))


def policy_names(folders: Sequence[Path] = ()) -> tuple[str, ...]:
    """
    Return the names of all policies that can be named, sorted.

    Raises:
        PolicyError: a folder that is there cannot be read.

    >>> "review" in policy_names()
    True
    """
    names = {entry.name for entry in files("broker.policies").iterdir()}
    for folder in folders:
        try:
            names.update(os.listdir(folder))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise PolicyError(f"{folder}: cannot be read: {error.strerror}") from error
    return tuple(sorted(n.removesuffix(SUFFIX) for n in names if n.endswith(SUFFIX)))


def policy_loader(
    folders: Sequence[Path] = (),
    *,
    base: Path | None = None,
    groups: Mapping[str, frozenset[str]] | None = None,
) -> Callable[[str], tuple[str, ...]]:
    """Return what ``parse_scope`` takes as ``policies``: a name in, its texts out."""
    return lambda name: find_policy(name, folders, base=base, groups=groups).texts


def load_policy(
    text: str,
    name: str,
    *,
    source: str | None = None,
    include: Callable[[str], Policy] | None = None,
    groups: Mapping[str, frozenset[str]] | None = None,
) -> Policy:
    """
    Read the text of a policy file.

    Args:
        text: what the file holds.
        name: the policy's name, and its file for messages unless ``source`` is given.
        source: the file's name for messages.
        include: gives the policy behind an ``@other`` line; without it such a line is an error.
        groups: the tools behind each ``@group``; when absent, group names are not looked up.

    Raises:
        ScopeError: a line is malformed; ``where`` holds the file and the line.
        PolicyError: the file says nothing, or not what it is for.

    >>> load_policy("# Look only.\\ntools = read\\nexpect allow read()", "look").texts
    ('tools=read',)
    """
    source = f"{name}{SUFFIX}" if source is None else source
    about = ""
    texts: list[str] = []
    expects: list[Expect] = []
    for number, line in enumerate(_lines(text, source), 1):
        where = f"{source}:{number}"
        try:
            check_text(line)
            body, comment = _split_comment(line)
            if not body:
                about = about or comment
                continue
            if re.match(r"expect(?: |\Z)", body):
                expects.append(_read_expect(body, comment, where))
            elif body.startswith("@"):
                texts += _read_include(body, include)
            else:
                texts.append(_read_pair(body, groups))
        except ScopeError as error:
            error.where = error.where or where
            raise
        if len(texts) > MAX_SCOPE_TEXTS:
            raise PolicyError(f"{where}: more than {MAX_SCOPE_TEXTS} texts in one policy")
    if not about:
        raise PolicyError(f"{source}: begin with a comment that says what the policy is for")
    if not texts:
        raise PolicyError(f"{source}: the policy limits nothing; give it a line such as `calls=60`")
    return Policy(name, about, tuple(texts), tuple(expects), source)


def check_expects(policy: Policy, decide: Decide) -> list[str]:
    """
    Run a policy's tests and return one line for each that fails.

    Args:
        decide: what a call comes to under a ticket with this policy's caveats, and with the
            line that was typed (empty: none).
    """
    failures = []
    for expect in policy.expects:
        got = failure(expect, decide(expect.tool, dict(expect.arguments), expect.line))
        if got:
            failures.append(f"{expect.where}: `{expect.text}` {got}")
    return failures


def failure(expect: Expect, decided: Decision) -> str:
    """Return how a decision is another than the one that is expected; empty where it is not."""
    refusal = decided.refusal
    if expect.allowed and refusal is not None:
        return f"was refused by `{refusal.caveat}`: {refusal.reason}"
    if not expect.allowed and refusal is None:
        return "was allowed"
    if refusal is not None and expect.caveat not in (None, refusal.caveat):
        return f"was refused by `{refusal.caveat}`, not by `{expect.caveat}`"
    return ""


# ── lines ──


def _lines(text: str, source: str) -> list[str]:
    if len(text) > MAX_POLICY_BYTES:
        raise PolicyError(f"{source}: a policy has at most {MAX_POLICY_BYTES} bytes")
    # Editors on some systems put a byte order mark first; it belongs to no line.
    lines = text.removeprefix("\ufeff").split("\n")
    return [line.removesuffix("\r") for line in lines]


def _split_comment(line: str) -> tuple[str, str]:
    """
    Return a line's entry and its comment.

    A ``#`` begins a comment at the start or after a blank, outside quotes: in ``src/c#/**`` it
    belongs to the name, and cutting there would change what the line allows.
    """
    for found in _COMMENT.finditer(line):
        if found.group().endswith("#"):
            return line[: found.start()].strip(" "), line[found.end() :].lstrip("#").strip(" ")
    return line.strip(" "), ""


def _read_pair(body: str, groups: Mapping[str, frozenset[str]] | None) -> str:
    known = defaultdict(lambda: frozenset(("any",))) if groups is None else groups
    parse_scope([body], at=0, groups=known, past_ok=True)
    key, _, value = body.partition("=")
    return f"{key.strip(' ')}={value.strip(' ')}"


def _read_include(body: str, include: Callable[[str], Policy] | None) -> tuple[str, ...]:
    piece = parse_pieces(body, "scope")[0]
    if include is None:
        raise ScopeError("policies cannot be included here", text=body)
    return include(piece.text[1:]).texts


def _read_expect(body: str, comment: str, where: str) -> Expect:
    verdict, tool, *rest = parse_pieces(body, "expect")
    found = _named(body, [piece for piece in rest if piece.name == "argument"])
    lines = [str(json_value(body, p.parts[0])) for p in rest if p.name == "given"]
    allowed = verdict.text == "allow"
    caveat = None
    if not allowed and comment and " " not in comment:
        caveat = comment.strip("`")
        if caveat not in REFUSERS:
            message = f"no caveat `{caveat}` could refuse it"
            hint = nearest(caveat, REFUSERS)
            raise ScopeError(message, text=body, offset=len(body), hint=hint)
    return Expect(where, body, allowed, tool.text, found, caveat, "".join(lines))


def _named(body: str, pieces: Iterable[Piece]) -> dict[str, object]:
    """Return what ``name=value`` or ``"name": value`` pairs say; each name once."""
    found: dict[str, object] = {}
    for pair in pieces:
        name, value = pair.parts
        key = str(_json_value(body, name)) if name.name == "STRING" else name.text
        if key in found:
            raise ScopeError(f"`{key}` is given twice", text=body, offset=name.start)
        found[key] = _json_value(body, value)
    return found


def _json_value(body: str, piece: Piece) -> object:
    if piece.name == "list":
        return [_json_value(body, part) for part in piece.parts]
    if piece.name == "object":
        return _named(body, piece.parts)
    return json_value(body, piece)


# ── finding ──


def _find(name: str, place: _Place) -> Policy:
    if len(place.chain) >= MAX_POLICY_DEPTH:
        raise PolicyError(f"policies include each other too deeply: {_chain(place.chain, name)}")
    if "/" in name:
        return _from_path(name, place)
    file = f"{name}{SUFFIX}"
    if _NAME.fullmatch(name):
        for folder in place.folders:
            if _is_file(folder / file):
                return _from_file(folder / file, name, place)
        shipped = files("broker.policies").joinpath(file)
        if shipped.is_file():
            inner = _deeper(place, f"shipped:{name}", None)
            return _load(shipped.read_text(encoding="utf-8"), name, f"@{name}", inner)
    near = nearest(name, policy_names(place.folders))
    hint = "`broker policy list` names them all" if near is None else f"@{near}"
    raise PolicyError(f"no policy is called `{name}`", hint=hint)


def _from_path(name: str, place: _Place) -> Policy:
    if place.base is None:
        raise PolicyError(f"`@{name}`: a shipped policy names no files")
    path = place.base / name
    if not _is_file(path):
        raise PolicyError(f"no policy file `{name}`")
    return _from_file(path, path.name.removesuffix(SUFFIX), place)


def _is_file(path: Path) -> bool:
    # What cannot be looked at is an error, and not absent: another policy of the same name
    # would allow something else.
    try:
        return path.is_file()
    except OSError as error:
        raise PolicyError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError:
        return False


def _from_file(path: Path, name: str, place: _Place) -> Policy:
    inner = _deeper(place, os.path.realpath(path), path.parent)
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_POLICY_BYTES + 1)
        text = data.decode("utf-8")
    except OSError as error:
        raise PolicyError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PolicyError(f"{path}: not UTF-8 at byte {error.start}") from error
    if len(data) > MAX_POLICY_BYTES:
        raise PolicyError(f"{path}: a policy has at most {MAX_POLICY_BYTES} bytes")
    return _load(text, name, str(path), inner)


def _load(text: str, name: str, source: str, inner: _Place) -> Policy:
    return load_policy(
        text,
        name,
        source=source,
        include=lambda other: _find(other, inner),
        groups=inner.groups,
    )


def _deeper(place: _Place, identity: str, base: Path | None) -> _Place:
    """Return the place for what a policy includes; the policy itself may not come again."""
    if identity in place.chain:
        raise PolicyError(f"policies include each other: {_chain(place.chain, identity)}")
    return _Place(place.folders, base, place.groups, (*place.chain, identity))


def _chain(chain: Iterable[str], last: str) -> str:
    return " → ".join(os.path.basename(one).removeprefix("shipped:") for one in (*chain, last))
