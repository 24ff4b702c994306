"""The exports as a package: they are views, made in one pass."""

from __future__ import annotations

import subprocess
import sys

import broker.export


def test_the_package_lists_its_rooms() -> None:
    """Every module of the package stands in its list of rooms."""
    from importlib.resources import files

    names = {
        each.name.removesuffix(".py")
        for each in files("broker.export").iterdir()
        if each.name.endswith(".py") and each.name != "__init__.py"
    }
    told = broker.export.__doc__ or ""
    assert names == {name for name in names if f"``{name}``" in told}


def test_importing_the_formats_loads_no_library() -> None:
    """The library that signs is loaded when something is signed, and no sooner."""
    code = "import broker.export.formats, sys; print('cryptography' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
