"""
What one ticket allows and another does not, by example.

Decided here: which calls are tried. For each reason that the second ticket could have to refuse, a
call is looked for that the first one allows; ``authorize`` then says whether it is one, so that no
example is wrong. Not decided here: when lists cover one another (``broker.globs``,
``broker.hosts``, ``broker.language.rulecover``), how examples are shown.

The search is exact over every call, file system, catalog and typed line, for two roots with at
most one `tools` list that holds rules in the first; but not for one text at two arguments, of which
one must stand in the typed line and the other must not. What cannot be decided is said, and never
taken for equal.

Rule a maintainer keeps: a new reason to refuse in ``authorize`` is looked for here as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Final

from broker.authorize import authorize
from broker.bounds import PathBound
from broker.calls import Call, Decision, PathSubject, Refusal, TypedText, UrlSubject
from broker.caveats import patterns, rules
from broker.conditions import HostIn, Under
from broker.errors import LimitError
from broker.globs import path_example, tool_example, tool_matcher
from broker.hosts import host_matcher, read_url
from broker.language.rulewitness import World, escapes
from broker.limits import MAX_RULE_NAMES
from broker.rules import Rule
from broker.ticket import Ticket

_MOST_BASES: Final = 64  # calls that a path, an address or an instant is added to
_SCHEMES: Final = (("https", 443), ("http", 80))


@dataclass(frozen=True, slots=True)
class Difference:
    """
    A call that one ticket allows and another refuses.

    ``line`` is the line that a person would have typed, ``at`` the instant in nanoseconds since the
    Unix epoch, ``spent`` the calls before this one.
    """

    call: Call
    refusal: Refusal
    line: str
    at: int
    spent: int


@dataclass(frozen=True, slots=True)
class Found:
    """The differences in one direction; ``unsure`` says what could not be decided."""

    differences: tuple[Difference, ...]
    unsure: tuple[str, ...] = ()


def difference(one: Ticket, other: Ticket, *, names: Sequence[str] = ()) -> Found:
    """
    Find what ``one`` allows and ``other`` does not: one example for each reason.

    Args:
        one: a root ticket.
        other: another one.
        names: tools that are known here, to show an example by where any tool would do.

    >>> from broker.caveats import calls, paths
    >>> from broker.ticket import mint
    >>> a, b = (
    ...     mint(c, key=bytes(32), sid="s", minted_at=0)
    ...     for c in ([paths("src/**")], [paths("src/*.py"), calls(3)])
    ... )
    >>> [found.refusal.caveat for found in difference(a, b, names=["read"]).differences]
    ['paths', 'paths', 'calls']
    >>> difference(b, a).differences
    ()
    """
    return _Search(one, other, names).run()


class _Search:
    def __init__(self, one: Ticket, other: Ticket, names: Sequence[str]) -> None:
        self.one, self.other = one, other
        self.names = names
        self.found: dict[tuple[str, str, str], Difference] = {}
        self.unsure: list[str] = []
        ends = [ticket.until for ticket in (one, other) if ticket.until is not None]
        self.at = min(ends) - 1 if ends else 0
        self.bases: list[tuple[Call, str]] = []

    def run(self) -> Found:
        for what, look in (
            ("tools", self._bases),
            ("tools", self._tools),
            ("paths", self._paths),
            ("hosts", self._hosts),
            ("tools", self._unseen),
            ("until", self._until),
            ("calls", self._calls),
        ):
            try:
                look()
            except LimitError as error:
                self.unsure.append(f"{what}: {error}")
        return Found(tuple(self.found.values()), tuple(self.unsure))

    # ── trying ──

    @staticmethod
    def decided(ticket: Ticket, call: Call, line: str, at: int, spent: int) -> Decision:
        """Decide a call; the line is the one that the ticket is bound to."""
        return authorize(ticket, call, at, spent, line=TypedText(line, ticket.intent))

    def tried(self, call: Call, line: str, *, at: int | None = None, spent: int = 0) -> bool:
        """Keep a call if it is an example."""
        when = self.at if at is None else at
        if not self.decided(self.one, call, line, when, spent).allowed:
            return False
        refusal = self.decided(self.other, call, line, when, spent).refusal
        if refusal is None:
            return False
        server = call.server or ""
        kind = "".join(p.access for p in call.paths) + "url" * len(call.urls)
        key = (refusal.caveat, f"{server}/{call.tool}" if refusal.caveat == "tools" else "", kind)
        self.found.setdefault(key, Difference(call, refusal, line, when, spent))
        return True

    def first(self, calls: Iterator[tuple[Call, str]]) -> bool:
        return any(self.tried(call, line) for call, line in calls)

    # ── tools ──

    def ruled(self) -> list[tuple[str | Rule, ...]]:
        """Return the first ticket's lists that hold rules."""
        return [b.patterns for b in self.one.bounds.tools if rules(b.patterns)]

    def items(self) -> Iterator[tuple[str | Rule, list[tuple[str, ...]]]]:
        """Yield each way in which the first ticket admits a tool: an item, and plain lists."""
        lists = [bound.patterns for bound in self.one.bounds.tools]
        ruled = self.ruled()
        if len(ruled) > 1:
            raise LimitError("several lists of tools hold rules, which are not weighed together")
        main = ruled[0] if ruled else lists[0] if lists else ("*",)
        others = [patterns(each) for each in lists if each is not main]
        for item in main:
            yield item, others

    def _bases(self) -> None:
        """Collect calls that the first ticket allows, to add subjects to."""
        bounds = self.one.bounds
        tried = [*self.names, *sorted(bounds.named), *sorted(self.other.bounds.named)]
        made = [(Call(name, _server(name), arguments={}), "") for name in tried]
        for item, others in self.items():
            if isinstance(item, str):
                made += self._named([(item,), *others])
            else:
                made += self._ruled(item, others, [])
        fits = [b for b in made if self.decided(self.one, *b, self.at, 0).allowed]
        # What both allow shows best which other caveat it is that they differ in.
        both = [b for b in fits if self.decided(self.other, *b, self.at, 0).allowed]
        self.bases = [*both, *[b for b in fits if b not in both]][:_MOST_BASES]

    def _named(self, lists: list[tuple[str, ...]]) -> Iterator[tuple[Call, str]]:
        """Yield a call of some tool, and of one that the other ticket does not name."""
        for outside in ((), tuple(sorted(self.other.bounds.named))):
            found = tool_example(lists, outside)
            if found is not None:
                yield Call(*found, arguments={}), ""

    def _ruled(
        self, item: Rule, others: list[tuple[str, ...]], held: Sequence[Rule]
    ) -> Iterator[tuple[Call, str]]:
        found = tool_example([(item.tool,), *others])
        if found is not None:
            yield from escapes(item, held, *found, self._world)

    def _tools(self) -> None:
        for bound in self.other.bounds.tools:
            plain, conditional = patterns(bound.patterns), rules(bound.patterns)
            for item, others in self.items():
                if not isinstance(item, str):
                    calls = list(self._escaping(item, others, plain, conditional))
                    if not self.first(iter(calls)) and any(map(self._fits, calls)):
                        self.unsure.append(f"whether `{item}` admits more than the rules there")
                    continue
                fits = tool_matcher((item,)).match
                known = [(n, _server(n)) for n in self.names if fits(n, _server(n))]
                if not self.first(_beside(name, conditional) for name in known):
                    found = tool_example([(item,), *others], plain)
                    self.first(iter([] if found is None else [_beside(found, conditional)]))

    def _fits(self, made: tuple[Call, str]) -> bool:
        """Whether an example fails by no caveat of the first ticket beside its rule."""
        refusal = self.decided(self.one, *made, self.at, 0).refusal
        return refusal is None or refusal.caveat == "tools"

    def _escaping(
        self,
        item: Rule,
        others: list[tuple[str, ...]],
        plain: tuple[str, ...],
        conditional: Sequence[Rule],
    ) -> Iterator[tuple[Call, str]]:
        """Yield calls that fit a rule and none of a list: for each set of names that meet there."""
        names = list(dict.fromkeys(rule.tool for rule in conditional))
        if "*" not in item.tool:
            names = [n for n in names if tool_example([(item.tool,), (n,)]) is not None]
        if len(names) > MAX_RULE_NAMES:
            raise LimitError(f"rules are weighed against at most {MAX_RULE_NAMES} names")
        for size in range(len(names) + 1):
            for alone in combinations(names, size):
                rest = tuple(name for name in names if name not in alone)
                found = tool_example([(item.tool,), *others], (*plain, *rest))
                if found is not None:
                    held = [rule for rule in conditional if rule.tool in alone]
                    yield from escapes(item, held, *found, self._world)

    # ── what a rule looks at ──

    def _world(self) -> World:
        return World(self._place, self._address)

    def _place(self, held: Sequence[Under], failed: Sequence[Under]) -> PathSubject | None:
        bounds = self.one.bounds
        inside = [(_below(test),) for test in held]
        place = path_example(
            [*inside, *[b.patterns for b in bounds.reads]], tuple(map(_below, failed))
        )
        if place is not None:
            return _read(place)
        # A write inside `.git` is admitted only where each folder names it.
        git = [test for test in failed if ".git" in test.folder.split("/")]
        if not all(".git" in test.folder.split("/") for test in held):
            return None
        lists = [*inside, *[b.patterns for b in bounds.writes]]
        place = path_example(lists, tuple(map(_below, git)), git=True)
        return None if place is None else _write(place)

    def _address(self, held: Sequence[HostIn], failed: Sequence[HostIn]) -> UrlSubject | None:
        lists = [test.patterns for test in held]
        taken = [test.patterns for test in failed]
        for url in self._urls([*lists, *taken]):
            reached = [host_matcher(each).match(url.keys) for each in (*lists, *taken)]
            if all(reached[: len(lists)]) and not any(reached[len(lists) :]):
                return url
        return None

    def _urls(self, more: Sequence[tuple[str, ...]] = ()) -> Iterator[UrlSubject]:
        """Yield one address for each kind that the lists tell apart, of those that may be sent."""
        lists = [b.patterns for t in (self.one, self.other) for b in t.bounds.hosts]
        every = list(dict.fromkeys(p for each in (*lists, *more) for p in each))
        mine = [b.match for b in self.one.bounds.hosts]
        for url in _addresses(every):
            if all(match.match(url.keys) for match in mine):
                yield url

    # ── the other reasons ──

    def _paths(self) -> None:
        mine, theirs = self.one.bounds, self.other.bounds
        for bound in theirs.reads:
            self._place_apart(mine.reads, bound, None)
        for bound in theirs.writes:
            self._place_apart(mine.writes, bound, False)
            self._place_apart(mine.writes, bound, True)

    def _place_apart(self, mine: Sequence[PathBound], bound: PathBound, git: bool | None) -> None:
        make = _read if git is None else _write
        lists = [b.patterns for b in mine]
        place = path_example(lists, bound.patterns, git=git)
        if place is not None:
            self._subject(paths=(make(place),))
        elif not mine and not git:
            self._subject(paths=(make("")._replace(spelled="/elsewhere", places=()),))

    def _subject(
        self, *, paths: tuple[PathSubject, ...] = (), urls: tuple[UrlSubject, ...] = ()
    ) -> None:
        """Try a subject with each of the calls that the first ticket allows."""
        for call, line in self.bases:
            if self.tried(_with(call, paths, urls), line):
                return

    def _hosts(self) -> None:
        theirs = self.other.bounds
        for url in self._urls():
            refused = any(not b.match.match(url.keys) for b in theirs.hosts)
            if refused or theirs.no_network:
                self._subject(urls=(url,))

    def _unseen(self) -> None:
        if self.other.bounds.seen:
            calls = [(replace(call, opaque=True), line) for call, line in self.bases]
            calls += [(replace(call, missing=("path",)), line) for call, line in self.bases]
            self.first(iter(calls))

    def _until(self) -> None:
        ours, theirs = self.one.until, self.other.until
        if theirs is not None and (ours is None or ours > theirs):
            any(self.tried(call, line, at=theirs) for call, line in self.bases)

    def _calls(self) -> None:
        ours, theirs = self.one.least, self.other.least
        if theirs is not None and (ours is None or ours > theirs):
            any(self.tried(call, line, spent=theirs) for call, line in self.bases)


def _beside(name: tuple[str, str | None], conditional: Sequence[Rule]) -> tuple[Call, str]:
    """Return a call of a tool that no rule of these admits."""
    ruled = any(tool_matcher((rule.tool,)).match(*name) for rule in conditional)
    return Call(*name, arguments={"anything": "else"} if ruled else {}), ""


def _with(call: Call, paths: tuple[PathSubject, ...], urls: tuple[UrlSubject, ...]) -> Call:
    return replace(call, paths=(*call.paths, *paths), urls=(*call.urls, *urls))


def _below(test: Under) -> str:
    return "**" if test.folder == "." else test.folder


def _read(place: str) -> PathSubject:
    return PathSubject("path", place.rstrip("/") or ".", "read", (place,))


def _write(place: str) -> PathSubject:
    names = [name.lower() for name in place.split("/")]
    spelled = place.rstrip("/") or "."
    return PathSubject("path", spelled, "write", (place,), inner_git=".git" in names)


def _server(name: str) -> str | None:
    return None if not name.startswith("mcp__") else name.split("__")[1] or None


def _addresses(every: Sequence[str]) -> Iterator[UrlSubject]:
    """Yield one address for each kind that host patterns tell apart; complete, and finite."""
    hosts: dict[str, None] = {}
    ports: dict[int, None] = {}
    for pattern in every:
        bare, colon, port = pattern.rpartition(":")
        name = bare if colon and not port.endswith("]") else pattern
        if name != pattern:
            ports[int(port)] = None
        if name.startswith("*."):
            fresh = (f"{label}{name[1:]}" for label in map("site{}".format, range(len(every) + 1)))
            hosts[next(host for host in fresh if not _says(every, host))] = None
        elif name != "*":
            hosts[name] = None
    hosts |= {"other.example": None, "203.0.113.7": None, "[2001:db8::7]": None}
    fresh_port = next(p for p in range(8081, 8081 + len(ports) + 1) if p not in ports)
    for host, (scheme, usual) in product(hosts, _SCHEMES):
        for at in dict.fromkeys((usual, 443, 80, *ports, fresh_port)):
            url = read_url(f"{scheme}://{host}{'' if at == usual else f':{at}'}/")
            yield UrlSubject("url", url.tidy, url.scheme, url.host, url.port, url.keys)
    yield UrlSubject("url", "ftp://other.example/", "ftp", "other.example", 21, ())


def _says(every: Sequence[str], host: str) -> bool:
    return any(pattern == host or pattern.startswith(f"{host}:") for pattern in every)
