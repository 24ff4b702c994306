"""Arguments are read role by role, and what no catalog knows is judged by what it looks like."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import broker.resolution.reading
from broker.catalogs.entry import Argument, ToolEntry
from broker.limits import MAX_PATCH_CHARS
from broker.resolution.arguments import Unreadable
from broker.resolution.places import DiskPaths
from broker.resolution.reading import Reading
from broker.resolution.winpaths import WindowsPaths

Read = Callable[..., Reading]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Read arguments under an entry that is made up of roles."""
    (tmp_path / "ws" / "src").mkdir(parents=True)
    paths = DiskPaths(str(tmp_path / "ws"))

    def _read(
        arguments: dict[str, object], effect: str = "write", others: str = "judge", **roles: object
    ) -> Reading:
        known = {k: Argument(r) if isinstance(r, str) else r for k, r in roles.items()}
        entry = ToolEntry("t", None, effect, known, others)
        reading = Reading(paths, paths.root)
        reading.read(entry, arguments)
        return reading

    return _read


def seen(reading: Reading) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return where each path stands, how it is touched, and its places."""
    return [(p.argument, p.access, p.places) for p in reading.paths]


@pytest.mark.parametrize(
    ("role", "access"),
    [
        ("path-read", "read"),
        ("path-list", "read"),
        ("path-tree", "read"),
        ("path-write", "write"),
        ("path-put", "write"),
        ("path-delete", "write"),
        ("path-nofollow", "write"),
    ],
)
def test_roles_of_paths(read: Read, role: str, access: str) -> None:
    """Each role says whether a path is read or written; lists and tables are read through."""
    assert seen(read({"p": "src/a"}, p=role)) == [("p", access, ("src/a/",))]
    found = read({"p": ["a", {"k": ["b"]}]}, p=role)
    assert seen(found) == [("p[0]", access, ("a/",)), ("p[1].k[0]", access, ("b/",))]
    assert seen(read({"p": []}, p=role)) == []


def test_the_names_of_a_table_may_be_paths(read: Read) -> None:
    """A table from paths to contents does not hide a path in its names."""
    found = read({"p": {"../x": "src/a"}}, p="path-read")
    assert [p.places for p in found.paths] == [(), ("src/a/",)]


@pytest.mark.parametrize("value", [5, True, 1.5, ["a", None], {"k": 3}])
def test_a_path_is_text(read: Read, value: object) -> None:
    """A value of another type where a path is due makes the call unreadable."""
    with pytest.raises(Unreadable) as caught:
        read({"p": value}, p="path-read")
    assert caught.value.fault.kind == "arguments"


def test_absent_arguments(read: Read) -> None:
    """What is due and absent is missing, defaults are read, and what may be absent may."""
    found = read(
        {"b": None},
        a="path-read",
        b="url",
        c=Argument("path-list", default="src"),
        d=Argument("path-read", optional=True),
        e="text",
        f=Argument("fields", fields={"x": Argument("url")}),
    )
    assert found.missing == ["a", "b", "f"]
    assert seen(found) == [("c", "read", ("src/",))]


def test_text_is_never_judged(read: Read) -> None:
    """Text is text, whatever it looks like and however deep it stands."""
    found = read({"t": ["/etc/passwd", {"path": "https://a.example/"}]}, t="text")
    assert (found.paths, found.urls, found.opaque) == ([], [], False)
    assert read({"t": "(a+)+$"}, t="search-regex").paths == []


def test_a_current_folder_moves_relative_paths(read: Read) -> None:
    """Paths start from the call's own folder, and that folder is judged too."""
    found = read({"p": "a", "d": "src"}, p="path-write", d="cwd")
    assert seen(found) == [("d", "read", ("src/",)), ("p", "write", ("src/a/",))]
    assert seen(read({"p": "a"}, p="path-write", d="cwd")) == [("p", "write", ("a/",))]
    default = Argument("cwd", default="src")
    assert seen(read({"p": "a"}, p="path-read", d=default))[1] == ("p", "read", ("src/a/",))
    for bad in (5, "~", ["src"]):
        with pytest.raises(Unreadable):
            read({"d": bad}, d="cwd")


def test_a_current_folder_counts_in_its_own_object(read: Read) -> None:
    """A folder inside an argument does not move what stands outside it."""
    inner = Argument("fields", fields={"d": Argument("cwd"), "p": Argument("path-read")})
    found = read({"r": {"d": "src", "p": "a"}, "p": "a"}, r=inner, p="path-read")
    assert [p.places for p in found.paths] == [("src/",), ("src/a/",), ("a/",)]


@pytest.mark.parametrize(
    ("arguments", "places"),
    [
        ({"g": "src/**/*.py"}, ("src/",)),
        ({"g": "*.py"}, ("",)),
        ({"g": "*.py", "d": "src"}, ("src/",)),
        ({"g": "sub/*.py", "d": "src"}, ("src/sub/",)),
        ({"g": "../*.py", "d": "src"}, ("",)),
        ({"g": "../../*", "d": "src"}, ()),
        ({"g": "/etc/*", "d": "src"}, ()),
        ({"g": "*", "d": "/etc"}, ()),
        ({"d": "src"}, ("src/",)),
    ],
)
def test_a_search_starts_below_its_folder(
    read: Read, arguments: dict[str, object], places: tuple[str, ...]
) -> None:
    """The fixed beginning of a pattern is judged, below the folder that is searched."""
    found = read(arguments, g="glob-in", d=Argument("path-list", default="."))
    assert [p.places for p in found.paths] == [places]
    assert found.missing == ([] if "g" in arguments else ["g"])


@pytest.mark.parametrize(
    ("role", "arguments", "below"),
    [
        ("path-list", {"g": "*.py", "d": "src"}, False),
        ("path-list", {"g": "src/a.py"}, False),
        ("path-list", {"g": "**/*.py", "d": "src"}, True),
        ("path-list", {"g": "src/*/*.py"}, True),
        ("path-list", {"d": "src"}, False),
        ("path-tree", {"g": "*.py", "d": "src"}, True),
        ("path-tree", {"g": "src/new"}, True),
        ("path-tree", {"d": "src"}, True),
        ("path-tree", {}, True),
    ],
)
def test_what_a_search_reads_below(
    read: Read, role: str, arguments: dict[str, object], below: bool
) -> None:
    """A pattern that recurses reads a tree; a tool that always does reads it for any pattern."""
    found = read(arguments, g="glob-in", d=Argument(role, default="."))
    assert [p.below for p in found.paths] == [below]
    assert [p.below for p in read({"g": ["*", "**"]}, g="glob-in").paths] == [False, True]


def test_only_a_tree_reads_below(read: Read) -> None:
    """In a list each folder of a tree counts, and no other role reads what lies below."""
    for role in ("path-tree", "path-delete"):
        found = read({"p": ["src", ["new"]]}, p=role)
        assert [(p.places, p.below) for p in found.paths] == [(("src/",), True), (("new/",), True)]
    for role in ("path-read", "path-list", "path-write", "path-nofollow", "cwd"):
        assert not any(p.below for p in read({"p": "src"}, p=role).paths)


@pytest.mark.parametrize(
    ("source", "below"),
    [
        ("src/a.py", {"new": False, "src": True, "src/a.py": False}),
        ("src/link", {"new": False, "src": True, "src/a.py": False}),
        (["src/a.py", "src/link"], {"new": False, "src": True, "src/a.py": False}),
        ("src", {"new": True, "src": True, "src/a.py": True}),
        ("none", {"new": True, "src": True, "src/a.py": True}),
        ("/", {"new": True, "src": True, "src/a.py": True}),
        (["src/a.py", "none"], {"new": True, "src": True, "src/a.py": True}),
        ({"src/a.py": "src/a.py"}, {"new": True}),
        (None, {"new": True}),
    ],
)
@pytest.mark.parametrize("order", ["st", "ts"])
def test_where_something_is_put(
    read: Read, tmp_path: Path, source: object, below: dict[str, bool], order: str
) -> None:
    """A file is put at a path, or into a folder; what may be a folder goes with all below it."""
    src = tmp_path / "ws" / "src"
    (src / "a.py").write_text("a")
    (src / "link").symlink_to(".")
    roles = {"s": "path-delete", "t": "path-put"}
    for target, deep in below.items():
        found = read({"s": source, "t": target}, **{key: roles[key] for key in order})
        assert [p.below for p in found.paths if p.argument == "t"] == [deep], target
        assert found.paths[-1].argument == "t"


def test_what_is_copied_decides_where_it_is_put(read: Read, tmp_path: Path) -> None:
    """A copy follows a link to a folder; without a source it is a new tree that is put there."""
    (tmp_path / "ws" / "src" / "a.py").write_text("a")
    (tmp_path / "ws" / "link").symlink_to("src")
    for source, deep in (("src/a.py", False), ("link", True), ("src", True)):
        found = read({"s": source, "t": "new"}, s="path-tree", t="path-put")
        assert found.paths[-1].below is deep
    for two, deep in (("src/a.py", False), ("src", True)):
        found = read(
            {"s": "src/a.py", "s2": two, "t": "x"}, s="path-tree", s2="path-delete", t="path-put"
        )
        assert found.paths[-1].below is deep
    assert read({"t": "new"}, t="path-put").paths[0].below
    assert read({"t": ["new", "src"]}, t="path-put").paths[1].below
    assert read({}, s="path-tree", t="path-put").missing == ["s", "t"]
    each = Argument("fields", fields={"s": Argument("path-delete"), "t": Argument("path-put")})
    moves = [{"s": "src/a.py", "t": "new"}, {"s": "src", "t": "new"}]
    assert [p.below for p in read({"m": moves}, m=each).paths] == [False, False, True, True]


@pytest.mark.parametrize(
    "arguments",
    [
        {"g": "*/../../x"},
        {"g": 5},
        {"g": "*", "d": 5},
        {"g": "*", "d": "~"},
        {"g": "~/*"},
        {"g": ""},
    ],
)
def test_an_unclear_search(read: Read, arguments: dict[str, object]) -> None:
    """A pattern that may leave its folder, or a folder that is no text, is unreadable."""
    with pytest.raises(Unreadable):
        read(arguments, g="glob-in", d=Argument("path-list", default="."))


@pytest.mark.parametrize(
    ("pattern", "places"),
    [
        ("sub\\*.py", ("src/sub/",)),
        ("*.py", ("src/",)),
        ("c:\\ws\\src\\*", ("src/",)),
        ("c:/ws/*", ("",)),
        ("C:\\*", None),
        ("d:\\x\\*", ()),
        ("\\*", ()),
        ("\\\\server\\share\\*", ()),
        ("\\\\?\\C:\\*", None),
        ("?:\\x", None),
        ("{c:/x,y}", None),
        ("a/*:/x", None),
        ("%TEMP%\\*", None),
        ("*\\..\\..\\x", None),
    ],
)
def test_a_search_on_windows(pattern: str, places: tuple[str, ...] | None) -> None:
    """A backslash separates there, and no pattern may name another drive."""
    windows = WindowsPaths("C:\\ws")
    reading = Reading(windows, windows.root)
    known = {"g": Argument("glob-in"), "d": Argument("path-list", default=".")}
    entry = ToolEntry("t", None, "read", known)
    if places is None:
        with pytest.raises(Unreadable):
            reading.read(entry, {"g": pattern, "d": "src"})
    else:
        reading.read(entry, {"g": pattern, "d": "src"})
        assert reading.paths[0].places == places


def test_a_search_without_a_folder_starts_at_the_workspace(read: Read) -> None:
    """A tool without a folder argument searches from where relative paths start."""
    assert [p.places for p in read({"g": "*.py"}, g="glob-in").paths] == [("",)]


def test_a_link_is_read_from_its_own_folder(read: Read) -> None:
    """Where a new link leads is judged from the folder that the link stands in."""
    roles = {"p": "path-nofollow", "t": "link-target"}
    found = read({"p": "src/l", "t": "../x"}, **roles)
    assert seen(found) == [("p", "write", ("src/l/",)), ("t", "read", ("x/",))]
    found = read({"p": "l", "t": "../x"}, **roles)
    assert [p.places for p in found.paths] == [("l/",), ()]
    with pytest.raises(Unreadable):
        read({"p": "~/l", "t": "x"}, t="link-target", p=Argument("path-nofollow"))
    assert [p.places for p in read({"t": "src"}, t="link-target").paths] == [("src/",)]


def test_a_link_on_windows_is_read_from_its_own_folder() -> None:
    """Backslashes part folders there."""
    paths = WindowsPaths("C:\\ws")
    reading = Reading(paths, paths.root)
    known = {"p": Argument("path-nofollow"), "t": Argument("link-target")}
    reading.read(ToolEntry("t", None, "write", known), {"p": "src\\l", "t": "..\\x"})
    assert [p.places for p in reading.paths] == [("src/l/",), ("x/",)]


def test_the_files_of_a_patch_are_written(read: Read) -> None:
    """Every file that a patch names is judged as written."""
    text = "--- a/src/x\n+++ b/src/y\n@@ -1 +1 @@\n-a\n+b\n"
    found = read({"p": text}, p="patch")
    assert seen(found) == [("p", "write", ("src/x/",)), ("p", "write", ("src/y/",))]
    for bad in ("nothing", "x" * (MAX_PATCH_CHARS + 1), 5):
        with pytest.raises(Unreadable) as caught:
            read({"p": bad}, p="patch")
        assert caught.value.fault.kind == "arguments"


def test_addresses(read: Read) -> None:
    """Addresses are read wherever they stand, and so are proxies."""
    found = read(
        {"u": ["https://a.example/", "wss://b.example:99/"], "p": "http://c.example:3128"},
        effect="egress",
        u="url",
        p="proxy-url",
    )
    assert [u.keys[-1] for u in found.urls] == ["a.example:443", "b.example:99", "c.example:3128"]
    with pytest.raises(Unreadable) as caught:
        read({"u": "a.example"}, u="url")
    assert caught.value.fault.kind == "url"


def test_files_spelled_as_addresses(read: Read, tmp_path: Path) -> None:
    """A file's address is a path under both roles; the web's is an address."""
    file = f"file://{tmp_path}/ws/src/a"
    assert seen(read({"u": file}, u="file-url")) == [("u", "read", ("src/a/",))]
    found = read({"u": file}, u="url")
    assert seen(found) == [("u", "read", ("src/a/",))]
    assert found.urls[0].keys == ()
    assert read({"u": "https://a.example/"}, u="file-url").urls[0].host == "a.example"
    for bad in ("file://server/x", "src/a", 5):
        with pytest.raises(Unreadable):
            read({"u": bad}, u="file-url")


def test_a_drive_in_an_address_is_read_on_windows() -> None:
    """The slash before a drive is not part of the path."""
    paths = WindowsPaths("C:\\ws")
    reading = Reading(paths, paths.root)
    entry = ToolEntry("t", None, "read", {"u": Argument("file-url")})
    reading.read(entry, {"u": "file:///c:/ws/a.py"})
    assert reading.paths[0].places == ("a.py/",)


def test_a_host_header_is_a_destination(read: Read) -> None:
    """A Host header that names another host than the address does is one more address."""

    def hosts(headers: object, url: str = "https://a.example/") -> list[str]:
        return [u.host for u in read({"h": headers, "u": url}, h="headers", u="url").urls]

    assert hosts({"Host": "a.example"}) == ["a.example"]
    assert hosts({"Referer": "https://b.example/"}) == ["a.example"]
    assert hosts({"HOST ": "b.example"}) == ["a.example", "b.example"]
    assert hosts({"Host": "a.example:8443"}) == ["a.example", "a.example"]
    assert hosts({"Host": "a.example"}, "https://a.example:8443/") == ["a.example", "a.example"]
    assert hosts({"Host": "a.example:80"}, "http://a.example/") == ["a.example"]
    more: list[object] = [{"Host": f"a.example{s}"} for s in ("/x", "?x", "#b", "@b.example")]
    for bad in ({"Host": 5}, {"Host": "a b"}, {"X": "a\r\nHost: b"}, {"X\nHost": "b"}, 5, *more):
        with pytest.raises(Unreadable):
            hosts(bad)


def test_what_cannot_be_seen(read: Read) -> None:
    """An opaque effect or a present opaque argument makes the call opaque."""
    assert read({}, effect="opaque").opaque
    found = read({"c": "ls"}, c="opaque")
    assert (found.opaque, found.command) == (True, "ls")
    assert not read({}, c="opaque").opaque
    found = read({"c": ["ls", "-l"]}, c="opaque")
    assert (found.opaque, found.command) == (True, None)


@pytest.mark.parametrize("value", [True, "false", 1, 0, [], "no"])
def test_a_switch_that_lifts_limits(read: Read, value: object) -> None:
    """Such a switch is off or the call is unreadable, known or not, at any depth."""
    with pytest.raises(Unreadable, match="lifts the limits"):
        read({"s": value}, s="escape")
    with pytest.raises(Unreadable, match="lifts the limits"):
        read({"disable_sandbox": value})
    if value != []:
        with pytest.raises(Unreadable, match="lifts the limits"):
            read({"options": [{"disableSandbox": value}]})
    read({"s": False, "disable_sandbox": False}, s="escape")
    read({"s": None, "disable_sandbox": None}, s="escape")


def test_arguments_inside_an_object(read: Read) -> None:
    """An object's arguments are read by their own roles, in lists too."""
    inner = Argument("fields", fields={"u": Argument("url"), "p": Argument("path-read")})
    found = read({"r": {"u": "https://a.example/"}}, r=inner)
    assert [u.argument for u in found.urls] == ["r.u"]
    assert found.missing == ["r.p"]
    found = read({"r": [{"u": "https://a.example/", "p": "a", "file": "/x"}]}, r=inner)
    assert seen(found) == [("r[0].p", "read", ("a/",)), ("r[0].file", "write", ())]
    for bad in ("text", [5], 5):
        with pytest.raises(Unreadable, match="object"):
            read({"r": bad}, r=inner)


def test_unknown_arguments_are_judged(read: Read) -> None:
    """An unknown argument that looks like a path is judged as written, and an address as one."""
    found = read({"p": "src/a", "file_path": "src/b", "x": ["/etc/passwd"]}, p="path-read")
    assert seen(found) == [
        ("p", "read", ("src/a/",)),
        ("file_path", "write", ("src/b/",)),
        ("x[0]", "write", ()),
    ]
    assert read({"callback": "https://b.example/"}).urls[0].host == "b.example"
    assert [p.places for p in read({"x": {"/etc/passwd": 1}}).paths] == [()]
    assert read({"x": "plain", "n": 5, "b": None}).paths == []


def test_unknown_arguments_that_cannot_be_read_fit_nothing(read: Read) -> None:
    """A guess is no reason to call the whole call unreadable; it only fits no pattern."""
    for text in ("~/x", "\0", "\ud800", "$HOME", "", "src/..\\x"):
        [path] = read({"path": text}).paths
        assert path.places == ()
        assert path.why
        path.spelled.encode()
    [url] = read({"url": "not one"}).urls
    assert url.keys == ()
    [path] = read({"x": "file://server/y"}).paths
    assert path.places == ()


def test_others_may_be_known_to_be_text(read: Read) -> None:
    """Where a catalog says that all else is text, nothing is guessed."""
    found = read({"path": "/etc/passwd", "url": "https://a.example/"}, others="text")
    assert (found.paths, found.urls) == ([], [])


def test_an_unknown_tool_is_opaque_and_judged(tmp_path: Path) -> None:
    """Nothing is known of its effects, and its arguments are judged for what they look like."""
    paths = DiskPaths(str(tmp_path))
    reading = Reading(paths, paths.root)
    reading.read(None, {"path": "a", "q": "x"})
    assert reading.opaque
    assert seen(reading) == [("path", "write", ("a/",))]


def test_an_entry_that_nobody_vouches_for_stays_opaque(tmp_path: Path) -> None:
    """Such an entry adds its checks and takes none away."""
    paths = DiskPaths(str(tmp_path))
    reading = Reading(paths, paths.root)
    known = {"p": Argument("path-read")}
    reading.read(ToolEntry("t", None, "none", known, vouched=False), {"p": "/etc/passwd"})
    assert reading.opaque
    assert seen(reading) == [("p", "read", ())]


def test_calls_inside_are_kept_for_the_resolver(read: Read) -> None:
    """What a call holds is handed on as it is."""
    assert read({"c": [{"tool": "x"}]}, c="nested-calls").nested == [("c", [{"tool": "x"}])]


def test_a_role_that_nothing_reads_is_not_text(read: Read) -> None:
    """An unknown role makes the call unreadable."""
    with pytest.raises(Unreadable, match="nothing reads"):
        read({"p": "x"}, p="novel")


def test_the_number_of_subjects_is_bounded(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many places as the limit says are judged; one more is unreadable."""
    monkeypatch.setattr(broker.resolution.reading, "MAX_SUBJECTS", 50)
    names = [f"a{n}" for n in range(51)]
    headers = [["Host", f"{name}.example"] for name in names]
    assert len(read({"p": names[:50]}, p="path-read").paths) == 50
    assert len(read({"h": headers[:50]}, h="headers").urls) == 50
    for arguments in (
        {"p": names},
        {"p": [{"of": name} for name in names]},
        {"x": [f"/{name}" for name in names]},
        {"x": [f"https://{name}.example" for name in names]},
        {"h": headers},
    ):
        with pytest.raises(Unreadable, match="different places: split it into several calls"):
            read(arguments, p="path-read", h="headers")


def test_what_comes_again_counts_once(read: Read) -> None:
    """A text that an argument holds again is judged where it first stands, and nowhere else."""
    again = ["src/b", "src/a", "src/b", "./src/b", "src/a"]
    first = [("p[0]", ("src/b/",)), ("p[1]", ("src/a/",)), ("p[3]", ("src/b/",))]
    assert [(p.argument, p.places) for p in read({"p": again}, p="path-read").paths] == first
    mixed = [*again, {"k": ["src/a", "c"]}]
    found = read({"p": mixed}, p="path-read").paths
    assert [(p.argument, p.places) for p in found] == [*first, ("p[5].k[1]", ("c/",))]
    urls = ["https://b.example", "https://a.example", "https://b.example"]
    assert [u.argument for u in read({"u": urls}, u="url").urls] == ["u[0]", "u[1]"]
    rows = [
        {"file": "b"},
        {"file": "a"},
        {"file": "b"},
        {"note": "b"},
        {"url": "https://b.example"},
    ]
    found = read({"rows": [*rows, *rows]})
    assert [p.argument for p in found.paths] == ["rows[0].file", "rows[1].file"]
    assert [u.argument for u in found.urls] == ["rows[4].url"]
    hosts = [["Host", "b.example"], ["Host", "a.example"], ["host", "b.example"]]
    assert [u.host for u in read({"h": hosts}, h="headers").urls] == ["b.example", "a.example"]


def test_two_arguments_are_judged_each_on_its_own(read: Read) -> None:
    """What one argument reads and another writes counts twice, as does what starts elsewhere."""
    found = read({"p": ["src/a"], "w": ["src/a", "src/a"]}, p="path-read", w="path-write")
    assert seen(found) == [("p[0]", "read", ("src/a/",)), ("w[0]", "write", ("src/a/",))]
    inner = {"cwd": Argument("cwd")}
    values = {"rows": [{"cwd": "src", "file": "a"}, {"cwd": "lib", "file": "a"}], "file": "a"}
    found = read(values, rows=Argument("text", fields=inner))
    written = [(p.argument, p.places) for p in found.paths if p.access == "write"]
    assert written == [
        ("rows[0].file", ("src/a/",)),
        ("rows[1].file", ("lib/a/",)),
        ("file", ("a/",)),
    ]


def test_what_all_places_take_is_bounded(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are counted as they are spelled out: a long folder counts with each name in it."""
    monkeypatch.setattr(broker.resolution.reading, "MAX_SUBJECT_CHARS", 20_000)
    far = "/" + "d" * 250
    names = [f"a{n}" for n in range(90)]
    assert len(read({"cwd": far, "p": names[:60]}, cwd="cwd", p="path-read").paths) == 61
    for arguments in (
        {"cwd": far, "p": names},
        {"x": [far + name for name in names]},
        {"x": {"k" * 200: [f"./{name}" for name in names]}},
        {"x": [f"https://a.example{far}{name}" for name in names]},
    ):
        with pytest.raises(Unreadable, match="places take more than"):
            read(arguments, cwd="cwd", p="path-read")
