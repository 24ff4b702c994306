"""
Builds the sdist and the wheel, and tests the wheel where the sources are out of reach.

The wheel is built from the sdist, so a file that the sdist forgets fails here. The wheel goes
into a fresh environment; the tests run from a copy of ``tests/`` with no ``broker/`` beside it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# What the wheel is tested with, beside that every module of it can be imported: what could be
# another thing in a wheel than in the sources. The code is the same, and has been tested there.
CHOSEN = [
    *(f"tests/conformance/test_{name}.py" for name in ("main_job", "hook", "batch")),
    *(
        f"tests/unit/test_{name}.py"
        for name in (
            *("public_api", "shipped", "api", "scope", "policy", "ticket", "authorize"),
            *("catalogs", "catalogs_reader", "cli_main", "cli_app", "launch"),
            *("agents_plugin", "agents_client", "export_bundle", "harness_composition"),
        )
    ),
]
# What ships as data, and the folder that it lies in.
DATA = {
    "broker.agents": "broker/agents",
    "broker.agents.cline": "broker/agents/cline",
    "broker.agents.opencode": "broker/agents/opencode",
    "broker.agents.pi": "broker/agents/pi",
    "broker.grammar": "grammar",
    "broker.policies": "policies",
    "broker.catalogs": "broker/catalogs",
}
LEFT_BY_TOOLS = shutil.ignore_patterns(
    ".git", ".venv*", ".*_cache", ".hypothesis", "__pycache__", "*.egg-info", "build", "dist"
)
NEEDED = ("pytest", "hypothesis", "pyhpke", "rfc8785", "securesystemslib")

WHERE = """
import importlib, importlib.resources, pathlib, pkgutil, sys
import broker, broker.errors
here = pathlib.Path(broker.__file__).resolve()
assert here.is_relative_to(sys.prefix), f"{here} is not the installed wheel"
assert (here.parent / "py.typed").is_file(), "py.typed is not in the wheel"
for wanted in sys.argv[1:]:
    package, name = wanted.split(":")
    found = importlib.resources.files(package).joinpath(name)
    assert found.is_file(), f"{name} is not found as a resource of {package}"
for module in pkgutil.walk_packages(broker.__path__, "broker."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except broker.errors.InputError as error:
            if error.code != "input.extra":  # an adapter of a framework that is not here
                raise
        print(module.name)
"""


def main() -> int:
    """Build, install, look and test; return the exit code of the first step that fails."""
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="broker-wheel-") as folder:
        place = Path(folder)
        # From a copy: what an earlier build left beside the sources would hide a missing file.
        shutil.copytree(ROOT, place / "source", symlinks=True, ignore=LEFT_BY_TOOLS)
        run(sys.executable, "-m", "build", "--outdir", str(place / "dist"), str(place / "source"))
        (wheel,) = (place / "dist").glob("*.whl")

        venv.create(place / "venv", with_pip=True)
        python = str(place / "venv/bin/python")
        whole = f"{wheel}[anchors,harness,keyring,serve]"
        run(python, "-m", "pip", "install", "-qq", whole, *requirements())

        away = place / "bench"
        shutil.copytree(place / "source/tests", away / "tests")
        shutil.copy(ROOT / "pyproject.toml", away)
        data = [
            f"{package}:{path.name}"
            for package, folder in DATA.items()
            for path in sorted((ROOT / folder).iterdir())
            if path.suffix in {".js", ".lark", ".mjs", ".scope", ".toml"}
        ]
        there = set(run(python, "-c", WHERE, *data, cwd=away).split())
        missing = modules() - there
        if missing:
            print(f"wheel: without {', '.join(sorted(missing))}", file=sys.stderr)
            return 1
        shared = ("-n", "auto", "--dist", "loadfile", "-m", "not deep and not alone")
        last = run(python, "-m", "pytest", *shared, *CHOSEN, cwd=away).strip().splitlines()[-1]
        run(python, "-m", "pytest", "-m", "alone", *CHOSEN, cwd=away)
        count = last.split(" passed")[0].rsplit(maxsplit=1)[-1]
        spent_s = time.monotonic() - started_s
        print(f"wheel: {wheel.name} holds, {count} tests of it in {spent_s:.0f} s")
    return 0


def modules() -> set[str]:
    """Return the names of all modules in the sources, without those that are only run."""
    found = set()
    for path in (ROOT / "broker").rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[-1] not in ("__main__", "__init__"):
            found.add(".".join(parts))
    return found


def requirements() -> list[str]:
    """Return the test tools of the `dev` extra that the chosen tests need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    dev: list[str] = project["optional-dependencies"]["dev"]
    return [line for line in dev if line.startswith(NEEDED)]


def run(*command: str, cwd: Path | None = None) -> str:
    """Run one step and return its output; when it fails, show all of it and end."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    environ["HYPOTHESIS_PROFILE"] = "quick"
    environ.setdefault("BROKER_SHARED", str(ROOT.parent / "shared"))
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        print(f"wheel: this failed: {' '.join(command[:4])} …\n{done.stdout}", file=sys.stderr)
        raise SystemExit(done.returncode)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
