"""
Holds `broker serve` against its own OpenAPI document, by schemathesis.

Schemathesis lies in an environment of its own, since it brings much that nothing else needs. The
service is the one of this environment. It makes requests from the document: some that fit, which
must be answered as the document says, and many that do not, which must be refused. Run by
`make test-contract`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".venv-contract"
WANTED = "schemathesis>=4.32,<5"
# Not checked: that each request which fits the document is taken. A ticket and a scope are texts
# with a form of their own, which the document does not spell out.
LEFT_OUT = "positive_data_acceptance"
EXAMPLES = 60


def main() -> int:
    """Set schemathesis up, start a service, and return schemathesis' exit code."""
    sys.path.insert(0, str(ROOT))
    from tests.servekit import OPERATOR, served  # noqa: PLC0415 - of this repository

    python = FOLDER / "bin" / "python"
    if not python.is_file():
        venv.create(FOLDER, with_pip=True)
        pip = [str(python), "-m", "pip", "-qq", "--disable-pip-version-check", "install", WANTED]
        subprocess.run(pip, check=True)
    with (
        tempfile.TemporaryDirectory(prefix="contract-") as folder,
        served(Path(folder), environ={"BROKER_HOME": f"{folder}/home"}) as pdp,
    ):
        address = f"http://127.0.0.1:{pdp.port}"
        command = [str(FOLDER / "bin" / "schemathesis"), "run", f"{address}/openapi.json"]
        command += ["--header", f"Authorization: Bearer {OPERATOR}", "--exclude-checks", LEFT_OUT]
        command += ["--max-examples", os.environ.get("EXAMPLES", str(EXAMPLES)), "--no-color"]
        command += ["--suppress-health-check", "all", "--continue-on-failure", *sys.argv[1:]]
        code = subprocess.run(command, cwd=folder, check=False).returncode
        broken = [event for event in pdp.events() if event["event"] in {"broke", "server"}]
        faults = [event for event in broken if event.get("level") != "warning"]
        for event in faults:
            print(f"the service itself failed: {event}")
    return code or bool(faults)


if __name__ == "__main__":
    sys.exit(main())
