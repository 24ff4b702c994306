"""A patch names its files; one that cannot be read fails as a whole."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import broker.resolution.patches
from broker.resolution.patches import PatchError, patched

SECTIONED = """*** Begin Patch
*** Add File: src/new.py
+--- not/a/header
+*** nor this
*** Update File: src/old.py
*** Move to: lib/old.py
@@ def f():
-    a
+    b
 *** Delete File: kept/as/seen.py
*** Delete File: gone.md
*** End Patch
"""


def test_sections_name_files() -> None:
    """Each section's file counts, and so does a line that only some readers take for one."""
    assert patched(SECTIONED) == (
        "src/new.py",
        "src/old.py",
        "lib/old.py",
        "kept/as/seen.py",
        "gone.md",
    )


def test_unified_diffs_name_files() -> None:
    """Both sides count once, without git's prefixes; a made or removed side is no file."""
    text = (
        "diff --git a/src/a.py b/src/a.py\nindex 1..2 100644\n--- a/src/a.py\n+++ b/src/a.py\n"
        "@@ -1,2 +1,2 @@ f()\n-x\n+y\n z\n--- /dev/null\n+++ b/new.py\t2026-01-01\n"
        "@@ -0,0 +1 @@\n+q\n--- old.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-q\n"
    )
    assert patched(text) == ("src/a.py", "new.py", "old.txt")


def test_lines_of_a_hunk_are_no_headers() -> None:
    """What a hunk removes and adds is content, however it begins."""
    text = "--- a/x.sql\n+++ b/x.sql\n@@ -1,3 +1,2 @@\n--- a comment\n y\n-z\n+++ more\n"
    assert patched(text) == ("x.sql",)


def test_a_header_inside_a_hunk_counts() -> None:
    """A hunk that claims more lines than it has does not hide the next file."""
    text = "--- a/x\n+++ b/x\n@@ -1,900 +1,900 @@\n-a\n+b\n--- a/y\n+++ b/z\n@@ -1 +1 @@\n-a\n+b\n"
    assert patched(text) == ("x", "y", "z")


def test_moves_without_content_name_files() -> None:
    """Renames, copies, modes and binary changes name files in git's own lines."""
    text = (
        "diff --git a/p/q b/r/q\nsimilarity index 100%\nrename from p/q\nrename to r/q\n"
        "diff --git a/img.png b/img.png\nGIT binary patch\n"
        'diff --git "a/b\\303\\244.md" "b/b\\303\\244.md"\nold mode 100644\nnew mode 100755\n'
        "diff --git a/c b/c\r\ncopy from c\r\ncopy to d e\r\n"
    )
    assert patched(text) == ("p/q", "r/q", "img.png", "b\u00e4.md", "c", "d e")


def test_quoted_names_are_read() -> None:
    """Names in git's quotes are read as C reads them."""
    text = '--- "a/t\\tb \\"x\\" \\303\\251.md"\n+++ "b/n\\\\m"\n'
    assert patched(text) == ('t\tb "x" \u00e9.md', "n\\m")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "*** Begin Patch\n*** End Patch",
        "*** Add File:   \n",
        '--- "a/x\n+++ b/x\n',
        '--- "a/\\377"\n+++ b/x\n',
        "diff --git x y\n",
        "diff --git a/x c/y\n",
        'diff --git "a/x" b/x\n',
        "diff --git \n",
        'diff --git "\n',
        "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n",
        "diff --git a/l b/l\nold mode 100644\nnew mode 120000\n",
        "diff --git a/l b/l\nindex 1f2..3c4 120000\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-a\n+/etc\n",
    ],
)
def test_an_unreadable_patch_is_an_error(text: str) -> None:
    """A patch without files, that makes a link, or with an unreadable header fails as a whole."""
    with pytest.raises(PatchError):
        patched(text)


def test_a_link_may_be_deleted_by_a_patch() -> None:
    """Only making a link or changing where it leads is more than its name tells."""
    text = "diff --git a/l b/l\ndeleted file mode 120000\n--- a/l\n+++ /dev/null\n"
    assert patched(text) == ("l",)
    spoken = "--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+new file mode 120000\n"
    assert patched(spoken) == ("x",)


class _All:
    """Holds everything."""

    def __contains__(self, _: object) -> bool:
        return True


MARKS = """--- a/x|+++ b/x|--- |+++|@@ -1,3 +1,2 @@|@@ -1 +1 @@ f|@@ -0,0 +1,9 @@|x|+++|---|  |
diff --git a/x b/x|*** Add File: y|  *** Move to: z|+*** Add File: y| --- a|rename from q|copy to r|
index|new mode 120000|new file mode 100644|index 0f..0e 120000|+a|-a| a||\r|+\r|\\ No newline"""
LINES = st.sampled_from(MARKS.replace("|\n", "|").split("|"))


@given(
    st.lists(LINES | st.text("+-* @dnircx\r", max_size=6), max_size=12),
    st.sampled_from(["\n", "\r\n"]),
)
@example(["@@ -1,2 +1,2 @@", "", "\r", " a", "--- a/x", "+++ b/x"], "\n")
@example(["@@ -1 +1,3 @@", "-a", "+b", "rename from q", "rename from q"], "\n")
def test_plain_lines_are_passed_as_if_they_were_read(lines: list[str], end: str) -> None:
    """Passing by most lines at a glance gives the same names and errors as reading each."""
    text = end.join(lines)

    def told() -> object:
        try:
            return patched(text)
        except PatchError as error:
            return str(error)

    quick = told()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(broker.resolution.patches, "_OPENS", _All())
        assert told() == quick
