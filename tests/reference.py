"""
A naive reading of what a ticket means, against which the real code is compared.

Written from the rules in words, for a reader and not for speed: no compiled matchers, no
normal form, no caches. A chain is a list of links, a link a list of caveats; everything is
looked at again for every question.
"""

from __future__ import annotations

from broker.calls import Call, PathSubject, UrlSubject
from broker.caveats import Caveat

Chain = list[list[Caveat]]
Rest = tuple[str, ...]

# One name of every kind that the generated patterns tell apart: these names stand for all.
NAMES = ("a", "b", "c", "ab", "xy", "ax", ".git", "a.py", "x.py")


def permits(chain: Chain, call: Call, at: int | None, spent: list[int]) -> bool:
    """Whether every caveat of every link admits the call (rule 1)."""
    if not one_call(chain, call, at):
        return False
    for number, link in enumerate(chain):
        for caveat in link:
            if caveat.kind == "calls" and spent[number] + size(call) > caveat.value:
                return False
    return True


def size(call: Call) -> int:
    return 1 + sum(size(inner) for inner in call.nested)


def one_call(chain: Chain, call: Call, at: int | None) -> bool:
    if call.fault is not None or any(path.own for path in call.paths):
        return False
    caveats = [caveat for link in chain for caveat in link]
    if not all(one_caveat(caveat, call, at) for caveat in caveats):
        return False
    kinds = {caveat.kind for caveat in caveats}
    looking = bool(kinds & {"paths", "reads", "writes", "hosts"})
    if looking and (call.missing or (call.opaque and not named(chain, call.tool))):
        return False
    root = {caveat.kind for caveat in chain[0]}
    silent = bool(root & {"paths", "reads", "writes"}) and "hosts" not in root
    if silent and call.urls and not named(chain, call.tool):
        return False
    return all(one_call(chain, inner, at) for inner in call.nested)


def named(chain: Chain, tool: str) -> bool:
    """Whether a person named the tool outright: an exact name, in the root link."""
    return any(
        caveat.kind == "tools" and any(p == tool and "*" not in p for p in caveat.value)
        for caveat in chain[0]
    )


def one_caveat(caveat: Caveat, call: Call, at: int | None) -> bool:
    value = caveat.value
    match caveat.kind:
        case "tools":
            return any(tool_fits(p, call.tool) for p in value)
        case "until":
            return at is not None and at < value
        case "calls":
            return True  # counted apart, per link
        case "hosts":
            return all(any(host_fits(p, url) for p in value) for url in call.urls)
        case "paths":
            return all(path_admitted(value, path) for path in call.paths)
        case "reads":
            return all(
                path_admitted(value, p) for p in call.paths if p.access == "read" or call.opaque
            )
        case "writes":
            return all(path_admitted(value, p) for p in call.paths if p.access == "write")
    return False


def path_admitted(patterns: tuple[str, ...], path: PathSubject) -> bool:
    if path.inner_git:
        patterns = tuple(p for p in patterns if ".git" in p.split("/"))
    fits = tree_fits if path.below else place_fits
    return bool(path.places) and all(fits(patterns, place) for place in path.places)


def place_fits(patterns: tuple[str, ...], place: str) -> bool:
    names = place.split("/")[:-1]
    return any(parts_fit(parts_of(pattern), names) for pattern in patterns)


def tree_fits(patterns: tuple[str, ...], place: str) -> bool:
    """Whether a place fits and every name below it, however deep."""
    left = {tuple(parts_of(pattern)) for pattern in patterns}
    for name in place.split("/")[:-1]:
        left = after(left, name)
    seen: list[set[Rest]] = []
    todo = [left]
    while todo:
        left = todo.pop()
        if not any(parts_fit(list(rest), []) for rest in left):
            return False  # something lies here that no pattern fits
        if left not in seen:
            seen.append(left)
            todo += [after(left, name) for name in NAMES]
    return True


def after(left: set[Rest], name: str) -> set[Rest]:
    """What is left of the parts of some patterns, once they have read one name."""
    found = set()
    for rest in left:
        if rest[:1] == ("**",):
            found |= {rest} | after({rest[1:]}, name)
        elif rest and name_fits(rest[0], name):
            found.add(rest[1:])
    return found


def parts_of(pattern: str) -> list[str]:
    parts = [] if pattern == "." else pattern.split("/")
    if not any(c in pattern for c in "*?["):
        parts.append("**")  # a plain name covers what lies below it
    return parts


def parts_fit(parts: list[str], names: list[str]) -> bool:
    if not parts:
        return not names
    if parts[0] == "**":
        return parts_fit(parts[1:], names) or bool(names and parts_fit(parts, names[1:]))
    return bool(names) and name_fits(parts[0], names[0]) and parts_fit(parts[1:], names[1:])


def name_fits(part: str, name: str) -> bool:
    if not part:
        return not name
    if part[0] == "*":
        return name_fits(part[1:], name) or bool(name and name_fits(part, name[1:]))
    if part[0] == "[":
        end = part.index("]", 3 if part[1] == "!" else 2)
        inside = part[1:end].removeprefix("!")
        found = name[:1] != "" and in_class(inside, name[0])
        negated = part[1] == "!"
        return bool(name) and found != negated and name_fits(part[end + 1 :], name[1:])
    if part[0] == "\\":
        return name[:1] == part[1] and name_fits(part[2:], name[1:])
    return bool(name) and part[0] in ("?", name[0]) and name_fits(part[1:], name[1:])


def in_class(inside: str, char: str) -> bool:
    while inside:
        if len(inside) > 2 and inside[1] == "-":
            if inside[0] <= char <= inside[2]:
                return True
            inside = inside[3:]
        else:
            if inside[0] == char:
                return True
            inside = inside[1:]
    return False


def tool_fits(pattern: str, tool: str) -> bool:
    if pattern == "*":
        return True
    if "*" in pattern and tool.startswith("mcp__") != pattern.startswith("mcp__"):
        return False  # a star for built-in names does not reach an outside server
    if "*" in pattern and tool.startswith("mcp__"):
        server, _, rest = tool.removeprefix("mcp__").partition("__")
        wanted, _, stars = pattern.removeprefix("mcp__").partition("__")
        return "__" not in rest and server == wanted and stars_fit(stars, rest)
    return stars_fit(pattern, tool)


def stars_fit(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "*":
        return stars_fit(pattern[1:], text) or bool(text and stars_fit(pattern, text[1:]))
    return text[:1] == pattern[0] and stars_fit(pattern[1:], text[1:])


def host_fits(pattern: str, url: UrlSubject) -> bool:
    name, colon, port = pattern.partition(":")
    default = {"http": 80, "ws": 80, "https": 443, "wss": 443}.get(url.scheme)
    if default is None or url.port != (int(port) if colon else default):
        return False
    address = url.host.replace(".", "").isdigit()
    if name == "*":
        return not address
    if name.startswith("*."):
        return not address and url.host.endswith(name[1:])
    return url.host == name
