"""The harness reaches the world through its capabilities alone, and whatever else is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.repo.outside import AGENT_LOOP, BROKER, CAPABILITIES, EDGES, LIBRARY, reaches

ROOT = Path(__file__).resolve().parents[2]


def test_the_harness_reaches_nothing_else() -> None:
    """No module of the harness imports, names or opens more than it may."""
    assert reaches(ROOT) == []


def test_the_agent_with_a_real_model_reaches_nothing_else() -> None:
    """No module of the reference agent does either, but for three that are named, and are there."""
    assert reaches(ROOT, "broker/agentloop", AGENT_LOOP, EDGES) == []
    assert all((ROOT / "broker/agentloop" / name).is_file() for name in EDGES)


GOOD = """
import json as j
import re
from collections.abc import Callable
from dataclasses import dataclass
from broker.capabilities.clock import Clock
from broker.errors import InputError
from .other import thing
from ..capabilities.fs import Folder
def f(clock: Clock, folder: Folder) -> object:
    re.compile("a")
    hasattr(folder, "path")
    match folder:
        case object(path=where): thing(where)
    return j.dumps({"open": clock.now_ns(), "kind": type(clock).__name__})
"""

BAD = {
    "open": "open('/etc/passwd')",
    "open, under another name": "o = open\no('/etc/passwd')",
    "open, handed on": "list(map(open, ['a']))",
    "print": "print('hello')",
    "input": "input()",
    "os": "import os",
    "os, under another name": "import os as json",
    "os, inside a function": "def f():\n    import os\n    os.remove('a')",
    "os, only for types": "if False:\n    from os import remove",
    "a name of os": "from os import environ as e",
    "os.path": "from os.path import exists",
    "pathlib": "from pathlib import Path",
    "io": "import io",
    "subprocess": "import subprocess",
    "the time": "from time import time",
    "the date": "from datetime import datetime\ndatetime.now()",
    "chance": "import random",
    "secrets": "from secrets import token_hex",
    "uuid": "from uuid import uuid4",
    "sockets": "import socket",
    "http": "from http.client import HTTPConnection",
    "httpx": "import httpx",
    "requests by name": "from urllib.request import urlopen",
    "the terminal": "import sys\nsys.stdout.write('a')",
    "standard input": "from sys import stdin",
    "tempfile": "import tempfile",
    "shutil": "from shutil import rmtree",
    "signals": "import signal",
    "ctypes": "import ctypes",
    "multiprocessing": "from multiprocessing import Process",
    "timers": "from threading import Timer",
    "timers, with a dot": "import threading\nthreading.Timer(1, f)",
    "processes of a pool": "from concurrent.futures import ProcessPoolExecutor",
    "asyncio": "import asyncio",
    "links that are followed": "import posixpath\nposixpath.realpath('a')",
    "a path that looks": "from posixpath import exists",
    "the folder it runs in": "from posixpath import relpath",
    "a file that argparse opens": "from argparse import FileType",
    "a file that json reads": "import json\njson.load(x)",
    "logging": "import logging",
    "importlib": "import importlib",
    "an import by name": "__import__('os')",
    "an import by a name of a name": "f = __import__\nf('os')",
    "a module through a module": "import contextlib\ncontextlib.os.remove('a')",
    "a module out of a module": "from contextlib import os",
    "a module of a pure module": "from dataclasses import sys",
    "a module of a pure module, with a dot": "import dataclasses\ndataclasses.sys.exit()",
    "a module in another name": "import json\nx = json\nx.codecs.open('a')",
    "a module handed on": "import re\nf(re)",
    "getattr of a module": "import re\ngetattr(re, 'copyreg')",
    "getattr by a computed name": "getattr(x, 'sys' + 'tem')",
    "getattr, handed on": "g = getattr",
    "getattr of insides": "getattr(x, '__globals__')",
    "insides": "f.__globals__['os']",
    "insides of a text": "''.__class__.__mro__",
    "builtins": "__builtins__['open']",
    "builtins, imported": "import builtins",
    "exec": "exec('import os')",
    "eval": "eval('1')",
    "compile": "compile('1', '', 'eval')",
    "globals": "globals()['x']",
    "what differs from run to run": "id(x)",
    "a real capability": "from broker.capabilities.fs import SystemFiles",
    "a real capability, relative": "from ..capabilities.clock import SystemClock",
    "the real bundle": "from broker.capabilities.bundle import real_capabilities",
    "the broker's own disk": "from broker.receipt.disk import DISK",
    "a module of the broker": "from broker import home",
    "the whole broker": "import broker.receipt.disk",
    "the broker, under another name": "import broker.receipt.disk as json",
    "the command line": "from broker.cli.app import app",
    "everything": "from collections import *",
    "everything of ours": "from broker.errors import *",
    "what the composition holds": "from broker.harness.composition import load_config",
    "what the composition holds, relative": "from .composition import Home",
    "the real bundle, handed on": "from broker.harness.__main__ import real_capabilities",
    "a module out of one of ours": "from broker.harness.tools import posixpath",
    "a module out of a pure one of ours": "from broker.permissions.commands import shlex as s",
    "the builtins of a module": "from re import __builtins__ as b\nb['open']('a')",
    "the loader of a module": "from re import __loader__ as r\nr.get_data('a')",
    "a module that is named further down": "def f():\n    p.os.remove('a')\nimport posixpath as p",
    "a frame": "(x for x in y).gi_frame.f_builtins['open']('a')",
    "the frame of an error": "error.with_traceback(None).tb_frame",
    "insides by a pattern": "match x:\n    case object(__class__=c): ...",
    "a text that is evaluated": "import typing\ntyping.get_type_hints(f)",
    "a text that is evaluated, by name": "from typing import ForwardRef",
    "code out of numbers": "import types\ntypes.CodeType(0)",
    "a default": "def f(x=open): ...",
    "a decorator": "@print\ndef f(): ...",
    "an annotation": "def f(x: open) -> None: ...",
    "inside a text": "f'{open(1)}'",
    "a comprehension": "[print(x) for x in y]",
}


def tree(root: Path, name: str, text: str) -> Path:
    """Write one module of a made-up harness."""
    folder = root / "broker/harness"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text + "\n", encoding="utf-8")
    return root


def test_a_good_module_is_left_alone(tmp_path: Path) -> None:
    """What computes, and what uses capabilities, is no fault."""
    assert reaches(tree(tmp_path, "good.py", GOOD)) == []


@pytest.mark.parametrize("way", BAD)
def test_a_way_around_is_found(way: str, tmp_path: Path) -> None:
    """Each of these made-up modules reaches further, and is named with its place."""
    faults = reaches(tree(tmp_path, "bad.py", BAD[way]))
    assert faults
    assert faults[0].startswith("broker/harness/bad.py:")


def test_a_folder_below_is_read_too(tmp_path: Path) -> None:
    """A module in a room of the harness is held as well."""
    (tmp_path / "broker/harness/deep").mkdir(parents=True)
    (tmp_path / "broker/harness/deep/bad.py").write_text("import os\n", encoding="utf-8")
    assert len(reaches(tmp_path)) == 1


def test_only_the_composition_makes_the_real_ones(tmp_path: Path) -> None:
    """Where a run is put together the real capabilities are made, and still nothing is opened."""
    text = "from broker.capabilities.bundle import real_capabilities"
    assert reaches(tree(tmp_path, "__main__.py", text)) == []
    assert reaches(tree(tmp_path, "__main__.py", f"{text}\nimport os")) != []


def test_the_list_names_what_exists() -> None:
    """Every module and name on the list is there, so that none is left over."""
    for module, names in {**LIBRARY, **BROKER, **AGENT_LOOP}.items():
        found = __import__(module.rstrip("."), fromlist=["*"])
        for name in names - {"*"}:
            assert hasattr(found, name), f"{module}.{name}"


def test_no_real_capability_is_on_the_list() -> None:
    """Of the capabilities the harness may name what they look like, and none that is real."""
    for module, names in CAPABILITIES.items():
        found = __import__(f"broker.capabilities.{module}", fromlist=["*"])
        for name in names:
            assert not isinstance(getattr(getattr(found, name), "kind", None), str), name
