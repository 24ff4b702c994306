"""Laws of reading calls: the kernel agrees, spelling does not matter, guesses only tighten."""

from __future__ import annotations

import difflib
import errno
import itertools
import ntpath
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from broker.authorize import authorize
from broker.calls import Call, PathSubject
from broker.catalogs import load_catalogs
from broker.caveats import paths, writes
from broker.resolution.arguments import canonical_digest
from broker.resolution.globbing import fixed_start
from broker.resolution.patches import patched
from broker.resolution.realpaths import PathError, PathWalk
from broker.resolution.winpaths import WindowsPaths
from broker.resolve import Resolver
from broker.ticket import mint

CATALOGS = load_catalogs()
NAMES = st.sampled_from(["a", "b", "c", "d", ".e"])
PARTS = st.one_of(NAMES, st.sampled_from(["..", "..", ".", "", "new"]))
PATHS = st.lists(PARTS, min_size=1, max_size=7).map("/".join)
TREES = st.lists(
    st.tuples(
        st.lists(NAMES, min_size=1, max_size=3).map("/".join),
        st.one_of(st.just("file"), st.just("folder"), PATHS.map(lambda p: ">" + p)),
    ),
    max_size=10,
)

needs_views = pytest.mark.skipif(
    not os.path.isdir("/proc/self/fd"), reason="the kernel shows no open files here"
)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """One folder that every example builds its tree in."""
    memory = "/dev/shm"  # thousands of small trees are made and removed
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        yield Path(os.path.realpath(name))


def build(folder: Path, tree: list[tuple[str, str]]) -> Path:
    """Make a tree; entries that do not fit what is there already are left out."""
    root = folder / "ws"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for name, kind in tree:
        place = root / name
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            if kind == "file":
                place.write_text("x")
            elif kind == "folder":
                place.mkdir(exist_ok=True)
            else:
                target = kind[1:]
                os.symlink(f"{root}{target}" if target[:1] == "/" else target or ".", place)
        except OSError:
            continue
    return root


def kernel(path: str, flags: int = 0) -> str | int:
    """Return where the kernel comes to for a path, or why it does not."""
    try:
        handle = os.open(path, os.O_PATH | flags)
    except OSError as error:
        return error.errno or -1
    try:
        return os.readlink(f"/proc/self/fd/{handle}")
    finally:
        os.close(handle)


@needs_views
@given(tree=TREES, path=PATHS)
def test_the_kernel_agrees(folder: Path, tree: list[tuple[str, str]], path: str) -> None:
    """What exists is found where the kernel finds it; a circle of links is an error for both."""
    root = build(folder, tree)
    full = f"{root}/{path}"
    truth = kernel(full)
    try:
        found: str | None = PathWalk(str(root), str(root)).follow(full)
    except PathError:
        found = None
    if isinstance(truth, str):
        assert found == truth
    elif truth == errno.ELOOP:
        assert found is None
    elif found is not None:
        assert found == os.path.realpath(full)


@needs_views
@given(tree=TREES, path=PATHS)
def test_the_kernel_agrees_on_the_entry_itself(
    folder: Path, tree: list[tuple[str, str]], path: str
) -> None:
    """Removing and renaming act on the entry that the kernel finds without following the last."""
    root = build(folder, tree)
    full = f"{root}/{path}"
    truth = kernel(full, os.O_NOFOLLOW)
    if isinstance(truth, str):
        assert PathWalk(str(root), str(root)).follow(full, last=False) == truth


@given(tree=TREES, paths=st.lists(PATHS, min_size=2, max_size=5))
def test_one_walk_reads_many_paths_alike(
    folder: Path, tree: list[tuple[str, str]], paths: list[str]
) -> None:
    """What a walk has seen for one path does not change what it reads for the next."""
    root = build(folder, tree)

    def read(walk: PathWalk, path: str) -> str:
        try:
            return walk.follow(f"{root}/{path}")
        except PathError as error:
            return error.message

    shared = PathWalk(str(root), str(root))
    alone = [read(PathWalk(str(root), str(root)), path) for path in paths]
    assert [read(shared, path) for path in paths] == alone


PLAIN = ["a", "b", "new", "x-1.py"]
NAMED = ["c", "d", ".e", "a b", "x.git", ".git", ".broker", "", ".", "..", "a..b", "\n", "-", "~"]
LETTERS = [
    "x\0",
    "\u00e9",
    "e\u0301",
    "\u2025",
    "\u200d.git",
    "$x",
    "a\\..\\b",
    "x" * 300,
    "x" * 9_000,
]
LAST = st.sampled_from(PLAIN + NAMED) | st.sampled_from(LETTERS)
FOLDERS = st.sampled_from(
    [
        "",
        "a",
        "a",
        "a/b",
        "./a",
        "a//c",
        ".",
        "..",
        "../ws",
        ".git/a",
        "a/.git",
        ".broker",
        "~",
        "\u00e9",
    ]
)
# No folder above the broker's own is ever known, so most of these lie apart.
OWN = st.sampled_from(["../elsewhere"] * 4 + ["../a", "a/b", "b/c/d", "x", ""])
# What a path begins with: relative, the workspace in either spelling, what holds it, the disk.
STARTS = st.sampled_from(["", "", "{ws}/", "{ws}/", "{ws}/../", "{ws}//", "{link}/", "{out}/", "/"])
# The first paths of a call make a folder known. These are the workspace itself, and what it is in.
FIRST = st.sampled_from(["{ws}", "{link}", "{out}", "{ws}/", ".", "{out}/elsewhere", "/", "/dev/x"])


@st.composite
def neighbours(draw: st.DrawFn) -> list[str]:
    """Draw paths of which many stand in one folder, plain ones first so that it is known."""
    folder, start = draw(FOLDERS | PATHS), draw(STARTS)
    last = draw(st.lists(st.sampled_from(PLAIN), min_size=2, max_size=3))
    last += draw(st.lists(LAST, min_size=1, max_size=5))
    texts = [start + (f"{folder}/{name}" if folder else name) for name in last]
    return draw(st.lists(FIRST, max_size=3)) + texts + draw(st.lists(PATHS, max_size=2))


@given(
    tree=TREES,
    texts=neighbours(),
    tool=st.sampled_from(["read_many", "write_file", "grep", "delete_file", "frobnicate"]),
    own=OWN,
    cwd=st.sampled_from([None, None, "a", "a/../b", "{link}", "{out}", "/"]),
    linked=st.booleans(),
)
@example(
    [("a/l", ">../b"), ("b", "file")], ["a/x", "a/y", "a/l", "a/z"], "grep", "../o", None, False
)
@example([("a/x", "file")], ["a/b", "a/c", "a/x", "a/y"], "write_file", "a/x", None, False)
@example([("a", ">.")], ["{ws}/a/b", "{ws}/a/c", "{ws}/a/d"], "write_file", "../o", None, False)
@example([("a", "file")], ["b/b", "b/c", "a/b", "b/d"], "read_many", "../o", None, False)
@example([("a/x", "file")], ["a/b", "a/c", "a/x", "a/y"], "grep", "../o", None, False)
@example([], ["a", "a/b/", "a/b/c", "a/b/d"], "read_many", "../o", None, False)
@example([], ["a/b", "a/c", f"a/{'x' * 9_000}"], "read_many", "../o", None, False)
@example([("a", "folder")], ["a/b", "a/c", f"a/{'x' * 300}"], "read_many", "../o", None, False)
@example([], ["a", "{ws}", "{out}/a", "{out}/b"], "read_many", "../o", None, False)
@example([], ["a", "{ws}", "{out}/a", "{out}/b"], "write_file", "../o", None, False)
@example([("a/b", "file")], ["a/b", "a/b", "a/b/c", "a/b/d"], "delete_file", "../o", None, False)
def test_many_paths_in_one_call_are_read_as_each_alone(
    folder: Path,
    tree: list[tuple[str, str]],
    texts: list[str],
    tool: str,
    own: str,
    cwd: str | None,
    linked: bool,
) -> None:
    """What is kept of folders while a call is read makes no path of it read otherwise."""
    root = build(folder, tree)
    link = folder / "link"
    if not link.is_symlink():
        link.symlink_to("ws")
    known = {"ws": root, "link": link, "out": folder}
    texts = [text.format_map(known) for text in texts]
    cwd = cwd and cwd.format_map(known)
    resolver = Resolver(link if linked else root, CATALOGS, own=(os.path.normpath(root / own),))
    key = "paths" if tool == "read_many" else "path"
    found = resolver.resolve(tool, {key: texts, "pattern": "x", "content": ""}, cwd=cwd)
    subjects = iter(found.paths)
    for text in dict.fromkeys(texts):  # what comes again leads to the same place
        alone = resolver.resolve(tool, {key: text, "pattern": "x", "content": ""}, cwd=cwd)
        for path in alone.paths:
            one = next(subjects)
            assert one._replace(argument="") == path._replace(argument="")
            if tool == "read_many":
                assert_where_it_leads(one, os.path.join(root, cwd or "", text), str(root))
        if alone.fault is not None:
            where = f"{key}[{texts.index(text)}]"
            assert found.fault == replace(alone.fault, argument=where)
            break
    else:
        assert found.fault is None
    assert next(subjects, None) is None


def assert_where_it_leads(path: PathSubject, spelled: str, root: str) -> None:
    """Compare with Python's own reading of links, which knows nothing of this one."""
    truth = os.path.realpath(spelled)
    assert path.resolved == truth
    if path.places:
        assert os.path.join(root, path.places[-1]).rstrip("/") == truth
    elif truth == root or truth.startswith(root + "/"):
        assert ".." in spelled.split("/")  # then what is spelled must lie inside as well


def test_a_second_name_is_seen_among_many(folder: Path) -> None:
    """A file with a second name is as closed to a write in a list as it is alone."""
    root = build(folder, [("a/x", "file"), ("a/b", "file"), ("a/c", "file")])
    os.link(root / "a" / "x", root / "twin")
    resolver = Resolver(root, CATALOGS)
    call = resolver.resolve("write_file", {"path": ["a/b", "a/c", "a/x", "a/new"], "content": ""})
    assert [bool(path.places) for path in call.paths] == [True, True, False, True]


def test_the_parts_of_many_paths_are_counted_alike(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call has as many parts as may be read whether or not its folders are known."""
    resolver = Resolver(build(folder, [("a/b", "file")]), CATALOGS)
    monkeypatch.setattr("broker.resolution.realpaths.MAX_PATH_STEPS", 20)
    names = [f"a/{name}" for name in "bcdefghijkl"]
    assert resolver.resolve("read_many", {"paths": names[:10]}).fault is None
    fault = resolver.resolve("read_many", {"paths": names}).fault
    assert fault is not None
    assert fault.argument == "paths[10]"
    assert "too many parts" in fault.reason


@given(tree=TREES, path=PATHS)
def test_a_write_fits_less_than_a_read(
    folder: Path, tree: list[tuple[str, str]], path: str
) -> None:
    """Every place that reading must fit, writing must fit too; both lie inside or nowhere."""
    root = build(folder, tree)
    resolver = Resolver(root, CATALOGS)
    read = resolver.resolve("read_file", {"path": path})
    write = resolver.resolve("write_file", {"path": path, "content": ""})
    assert (read.fault is None) == (write.fault is None)
    if read.fault is None:
        [one], [other] = read.paths, write.paths
        assert not other.places or set(one.places) <= set(other.places)
        for subject in (one, other):
            lies_inside = f"{subject.resolved}/".startswith(f"{root}/")
            assert lies_inside or not subject.places
            for place in subject.places:
                assert place == "" or place.endswith("/")
                assert not {"", ".", ".."} & set(place.split("/")[:-1])


@given(tree=TREES, path=PATHS, extra=st.sampled_from(["./", ".//", "././"]))
def test_spelling_does_not_matter(
    folder: Path, tree: list[tuple[str, str]], path: str, extra: str
) -> None:
    """Dots, repeated slashes, an absolute spelling and another current folder change nothing."""
    path = path.lstrip("/") or "."
    root = build(folder, tree)
    resolver = Resolver(root, CATALOGS)

    def places(text: str, cwd: str | None = None) -> object:
        call = resolver.resolve("read_file", {"path": text}, cwd=cwd)
        return [(p.places, p.resolved) for p in call.paths], call.fault and call.fault.reason

    plain = places(path)
    assert places(extra + path) == plain
    assert places(path.replace("/", "//")) == plain
    assert places(f"{root}/{path}") == plain
    assert places(path, cwd=str(root)) == plain


LISTS = st.lists(
    st.sampled_from(["**", ".", "a", "a*", "[!b]", "*/**", "**/*", "**/c", "a/**", "*/b", ".e/*"]),
    min_size=1,
    max_size=3,
)
SEARCHES = [
    ("grep", "path", "pattern"),
    ("glob", "path", "pattern"),
    ("Glob", "path", "pattern"),
    ("mcp__filesystem__search_files", "path", "pattern"),
]


@given(tree=TREES, path=PATHS, patterns=LISTS, search=st.sampled_from(SEARCHES))
@example(tree=[("a/b", "file")], path="a", patterns=["a*"], search=SEARCHES[0])
@example(tree=[("a/b/c", "file")], path="a", patterns=["a*"], search=SEARCHES[1])
@example(tree=[("a/b/c", "file")], path="a", patterns=["*", "*/b"], search=SEARCHES[2])
@example(tree=[("a", "file")], path="a", patterns=["a*"], search=SEARCHES[3])
def test_a_search_shows_nothing_that_a_read_is_refused(
    folder: Path, tree: list[tuple[str, str]], path: str, patterns: list[str], search: tuple
) -> None:
    """Whoever may search a place may read every file and list every folder below it."""
    root = build(folder, tree)
    resolver = Resolver(root, CATALOGS)
    ticket = mint([paths(*patterns)], key=bytes(32), sid="s", minted_at=0)
    tool, where, what = search
    found = resolver.resolve(tool, {where: path, what: "**"})
    if not authorize(ticket, found, 0).allowed:
        return
    top = found.paths[0].resolved
    below = [top] + [f"{at}/{name}" for at, dirs, names in os.walk(top) for name in dirs + names]
    for place in below:
        if not os.path.islink(place):
            for other in ("read_file", "list_dir", "grep"):
                call = resolver.resolve(other, {"path": place, "pattern": "x"})
                plain = replace(call, paths=tuple(p for p in call.paths if p.access == "read"))
                assert authorize(ticket, plain, 0).allowed


@given(tree=TREES, path=PATHS)
def test_what_a_search_reads_below_is_a_folder_s(
    folder: Path, tree: list[tuple[str, str]], path: str
) -> None:
    """A search of what the disk knows as a file is a read of it, and otherwise a read of a tree."""
    root = build(folder, tree)
    resolver = Resolver(root, CATALOGS)
    searched = resolver.resolve("grep", {"path": path, "pattern": "x"})
    read = resolver.resolve("read_file", {"path": path})
    assert searched.fault == read.fault
    for one, other in zip(searched.paths, read.paths, strict=True):
        assert one._replace(below=False) == other
        assert one.below == (not os.path.isfile(one.resolved))


def entries(top: str) -> list[str]:
    """Return an entry and all that lies below it; what a link leads to does not."""
    found = os.walk(top) if not os.path.islink(top) else ()
    return [top] + [f"{at}/{name}" for at, dirs, names in found for name in dirs + names]


@given(tree=TREES, path=PATHS, patterns=LISTS)
@example(tree=[("a/b", "file")], path="a", patterns=["a*"])
@example(tree=[("a/b/c", "file")], path="a", patterns=["*", "*/b"])
@example(tree=[("a/b/c", "file"), ("c", ">a")], path="c/", patterns=["c"])
@example(tree=[("a/b/c", "file"), ("c", ">a")], path="c", patterns=["c*"])
def test_what_goes_with_a_folder_may_go_alone(
    folder: Path, tree: list[tuple[str, str]], path: str, patterns: list[str]
) -> None:
    """Whoever may remove a place may remove and write every entry below it, one by one."""
    root = build(folder, tree)
    resolver = Resolver(root, CATALOGS)
    ticket = mint([writes(*patterns)], key=bytes(32), sid="s", minted_at=0)
    call = resolver.resolve("delete_file", {"path": path})
    if not authorize(ticket, call, 0).allowed:
        return
    for place in entries(call.paths[0].resolved):
        alone = resolver.resolve("delete_file", {"path": place})
        assert authorize(ticket, alone, 0).allowed
        if not os.path.islink(place):
            write = resolver.resolve("write_file", {"path": place, "content": ""})
            assert authorize(ticket, write, 0).allowed


@given(
    tree=TREES,
    source=PATHS,
    target=PATHS,
    patterns=LISTS,
    tool=st.sampled_from(["move_file", "copy_file"]),
)
@example([("a/b", "file"), ("c", "file")], "a", "d", ["a", "d*"], "move_file")
@example([("a/b", "file"), ("c", "folder")], "a/b", "c", ["a/*", "c*"], "move_file")
@example([("a/b", "file"), ("c", "file")], "a", "c", ["a", "c*"], "copy_file")
@example([("a/b", "file"), ("c", ">a")], "c", "d", ["d*"], "copy_file")
def test_what_is_put_with_a_folder_may_be_put_alone(
    folder: Path,
    tree: list[tuple[str, str]],
    source: str,
    target: str,
    patterns: list[str],
    tool: str,
) -> None:
    """However a tool moves or copies, onto a place or into it, each entry may be written there."""
    root = build(folder, tree)
    resolver = Resolver(root, CATALOGS)
    ticket = mint([writes(*patterns)], key=bytes(32), sid="s", minted_at=0)
    call = resolver.resolve(tool, {"source": source, "destination": target})
    if not authorize(ticket, call, 0).allowed:
        return
    top, onto = call.paths[0].resolved, call.paths[-1].resolved
    names = [place[len(top) :] for place in entries(top)]
    tops = [onto, f"{onto}/{os.path.basename(top)}"] if os.path.isdir(onto) else [onto]
    for place in [start + name for start in tops for name in names]:
        if os.path.realpath(place) == place:  # a link that is there already goes, or is refused
            write = resolver.resolve("write_file", {"path": place, "content": ""})
            assert write.fault is not None or authorize(ticket, write, 0).allowed


def test_a_file_is_renamed_within_a_pattern(folder: Path) -> None:
    """A file's new name needs to fit, and no more; so does the name of one that is removed."""
    root = build(folder, [("src/a.py", "file"), ("src/l.py", ">a.py"), ("docs/x", "file")])
    resolver = Resolver(root, CATALOGS)
    ticket = mint([paths("src/*.py")], key=bytes(32), sid="s", minted_at=0)

    def allowed(tool: str, **arguments: object) -> bool:
        return authorize(ticket, resolver.resolve(tool, arguments), 0).allowed

    for source in ("src/a.py", "src/l.py"):
        assert allowed("move_file", source=source, destination="src/new.py")
        assert allowed("copy_file", source=source, destination="src/new.py")
        assert allowed("delete_file", path=source)
    assert allowed("move_file", source="src/l.py", destination="src/a.py")
    assert not allowed("move_file", source="src/a.py", destination="src")
    assert not allowed("move_file", source="src/none.py", destination="src/new.py")
    assert not allowed("delete_file", path="src/none.py")
    assert not allowed("delete_file", path="src")


def test_a_folder_within_a_pattern_takes_what_a_pattern_covers(folder: Path) -> None:
    """Under a name without a wildcard, and under `**`, folders are removed, moved and copied."""
    root = build(folder, [("src/p/a.py", "file")])
    resolver = Resolver(root, CATALOGS)
    for pattern in ("src", "src/**", "s*/**"):
        ticket = mint([writes(pattern)], key=bytes(32), sid="s", minted_at=0)
        for tool, arguments in (
            ("delete_file", {"path": "src/p"}),
            ("delete_file", {"path": "src/none"}),
            ("move_file", {"source": "src/p", "destination": "src/q"}),
            ("copy_file", {"source": "src/p", "destination": "src/q"}),
        ):
            call = resolver.resolve(tool, arguments)
            assert authorize(ticket, call, 0).allowed, (pattern, tool)


JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(),
        st.sampled_from(["/etc/passwd", "~/x", "../x", "https://a.example/", "file:///x", "a"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.one_of(st.text(max_size=8), st.sampled_from(["path", "url", "tool", "args"])),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)
TOOLS = st.one_of(
    st.sampled_from([entry.name for entry in CATALOGS.tools()]), st.text(max_size=12), JSON
)


def arguments_for(tool: object) -> st.SearchStrategy[object]:
    """Arguments under the names that a tool knows, and others."""
    entry = CATALOGS.lookup(tool) if isinstance(tool, str) else None
    known = dict.fromkeys(entry.arguments, JSON) if entry is not None else {}
    return st.one_of(JSON, st.fixed_dictionaries({}, optional=known))


CALLS = TOOLS.flatmap(lambda tool: st.tuples(st.just(tool), arguments_for(tool)))


@given(call=CALLS, server=st.one_of(st.none(), st.sampled_from(["git", "x"])))
def test_every_call_can_be_read(
    folder: Path, call: tuple[object, object], server: str | None
) -> None:
    """Any tool and any JSON give the same call twice, and it can be written down."""
    resolver = Resolver(build(folder, []), CATALOGS)
    found = resolver.resolve(*call, server=server)
    assert isinstance(found, Call)
    assert found == resolver.resolve(*call, server=server)
    for subject in found.paths:
        "".join([subject.argument, subject.spelled, subject.resolved, *subject.places]).encode()
    for url in found.urls:
        "".join([url.argument, url.spelled, url.host, *url.keys]).encode()


@given(call=CALLS, extra=JSON, name=st.sampled_from(["file_path", "note", "uri", "zz"]))
def test_more_arguments_only_tighten(
    folder: Path, call: tuple[object, object], extra: object, name: str
) -> None:
    """One more argument that no catalog knows takes no subject and no fault away."""
    tool, arguments = call
    entry = CATALOGS.lookup(tool) if isinstance(tool, str) else None
    if not isinstance(arguments, dict) or name in arguments or (entry and name in entry.arguments):
        return
    resolver = Resolver(build(folder, []), CATALOGS)
    less = resolver.resolve(tool, arguments)
    more = resolver.resolve(tool, {**arguments, name: extra})
    assert set(less.paths) <= set(more.paths)
    assert set(less.urls) <= set(more.urls)
    assert more.fault is not None or less.fault is None
    assert more.missing == less.missing or more.fault is not None
    assert more.opaque >= less.opaque


EXACT = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53) + 1, 2**53 - 1), st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(value=EXACT)
def test_the_digest_is_the_standard_s(value: object) -> None:
    """Without fractions the canonical text is that of RFC 8785."""
    from hashlib import sha256

    assert canonical_digest(value) == sha256(rfc8785.dumps(value)).hexdigest()  # type: ignore[arg-type]  # it is JSON


@given(one=JSON, other=JSON)
def test_the_digest_tells_values_apart(one: object, other: object) -> None:
    """Two values have one digest only if they are written the same."""
    import json

    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (canonical_digest(one) == canonical_digest(other)) == same


def expansions(pattern: str) -> set[str]:
    """Expand braces the naive way: each innermost group, one alternative at a time."""
    done, todo = set(), {pattern}
    while todo:
        text = todo.pop()
        close = text.find("}")
        start = text.rfind("{", 0, close) if close >= 0 else -1
        if start < 0:
            done.add(text)
            continue
        for inner in text[start + 1 : close].split(","):
            todo.add(text[:start] + inner + text[close + 1 :])
    return done


@given(st.lists(st.sampled_from([*"a./{},*", "..", "{.", "/."]), max_size=9).map("".join))
def test_a_search_never_climbs_after_its_start(pattern: str) -> None:
    """However braces are expanded, nothing after the fixed beginning is a step up or a root."""
    try:
        start = fixed_start(pattern)
    except PathError:
        return
    assert pattern.startswith(start)
    for text in expansions(pattern):
        assert text.startswith(start)
        rest = text[len(start) :].lstrip("/") if start else text
        assert ".." not in rest.split("/")
        assert start or not rest.startswith("/")


@given(
    st.lists(
        st.tuples(
            st.from_regex(r"[a-z]{1,3}(/[a-z .-]{1,4}[a-z])?", fullmatch=True),
            st.lists(st.sampled_from(["x", "- a", "+ b", "-- c", "++ d", "@@ -1 +1 @@", ""])),
            st.lists(st.sampled_from(["x", "- a", "+ b", "-- c", "", "*** End"])),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_a_real_patch_names_its_files(files: list[tuple[str, list[str], list[str]]]) -> None:
    """Every file that differs is named, whatever stands in the lines."""
    text, due = "", []
    for name, old, new in files:
        lines = list(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}", lineterm=""))
        if lines:
            due.append(name)
            text += "\n".join(lines) + "\n"
    if due:
        assert set(due) <= set(patched(text))


@given(
    st.lists(st.sampled_from(["a", "B", ".c", "..", ".", ""]), min_size=1, max_size=6),
    st.lists(st.sampled_from(["/", "\\"]), min_size=6, max_size=6),
    st.sampled_from(["", "C:\\ws\\", "c:/WS/", "\\ws\\", "D:\\", "C:\\"]),
)
def test_windows_agrees(parts: list[str], seps: list[str], start: str) -> None:
    """For plain names the place is the one that Python's own reading of Windows paths gives."""
    text = start + "".join(itertools.chain(*zip(parts, seps, strict=False)))
    if text.replace("/", "\\").startswith("\\\\"):
        return
    ws = WindowsPaths("C:\\ws")
    found = ws.subject("path", text, ws.root, "read")
    truth = ntpath.normpath(ntpath.join("C:\\ws", text)).lower()
    if truth == "c:\\ws":
        assert found.places == ("",)
    elif truth.startswith("c:\\ws\\"):
        assert [p.lower() for p in found.places] == [truth[6:].replace("\\", "/") + "/"]
    else:
        assert found.places == ()
