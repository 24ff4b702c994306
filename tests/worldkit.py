"""A run to record into, for tests of what is recorded of the world around an agent."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker.capabilities.clock import SystemClock
from broker.trace.about import About, StartedBy
from broker.trace.reader import RunReader
from broker.trace.writer import RunWriter

# One of each form that a secret may have. None is real; each is spelled so that no scanner of
# repositories takes it for one.
SECRETS: Mapping[str, str] = {
    "anthropic": "sk-ant-" + "api03-aZ09bY18cX27dW36eV45fU54",
    "openai": "sk-" + "proj-Qw3rTy7uI9oP1aS5dF6gH8jK",
    "groq": "gsk_" + "Zx1Cv2Bn3Mq4Ws5Ed6Rf7Tg8Yh9U",
    "xai": "xai-" + "Ab12Cd34Ef56Gh78Ij90Kl12Mn34",
    "perplexity": "pplx-" + "a1b2c3d4e5f6a7b8c9d0e1f2a3b4",
    "tavily": "tvly-" + "Dev1Abc2Def3Ghi4Jkl5Mno6Pqr7",
    "huggingface": "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz12",
    "replicate": "r8_" + "AbCdEfGhIjKlMnOpQrStUvWxYz34",
    "aws": "AKIA" + "IOSFODNN7EXAMPL3",
    "aws session": "ASIA" + "IOSFODNN7EXAMPL4",
    "google": "AIza" + "SyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q",
    "google token": "ya29." + "a0AfH6SMBx7Qq1Zz2Ww3Ee4Rr5Tt",
    "google client": "GOCSPX-" + "Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr",
    "digitalocean": "dop_v1_" + "0123456789abcdef0123456789abcdef0123",
    "databricks": "dapi" + "0123456789abcdef0123456789abcdef",
    "vault": "hvs." + "CAESIJ1a2b3c4d5e6f7g8h9i0j1k2l",
    "github": "ghp_" + "16C7e42F292c6912E7710c838347Ae17",
    "github oauth": "gho_" + "16C7e42F292c6912E7710c838347Ae18",
    "github user": "ghu_" + "16C7e42F292c6912E7710c838347Ae19",
    "github server": "ghs_" + "16C7e42F292c6912E7710c838347Ae20",
    "github refresh": "ghr_" + "16C7e42F292c6912E7710c838347Ae21",
    "github fine": "github_pat_" + "11ABCDEFG0aBcDeFgHiJkL_mNoPqRsTu",
    "gitlab": "glpat-" + "xYz12AbC34dEf56GhI78",
    "atlassian": "ATATT3" + "xFfGF0aBcDeFgHiJkLmNoPqRsTuVwXyZ0",
    "npm": "npm_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456789",
    "pypi": "pypi-" + "AgEIcHlwaS5vcmcCJDAwMDAwMDAwLTAwMDA",
    "rubygems": "rubygems_" + "0123456789abcdef0123456789abcdef01234567",
    "docker": "dckr_pat_" + "AbCdEfGhIjKlMnOpQrStUvWx",
    "slack": "xoxb-" + "123456789012-abcdefABCDEF",
    "slack app": "xapp-" + "1-A0123456789-abcdefABCDEF",
    "stripe": "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc",
    "stripe test": "sk_test_" + "4eC39HqLyjWDarjtT1zdp7dd",
    "stripe hook": "whsec_" + "AbCdEf0123456789GhIjKl",
    "square": "sq0csp-" + "AbCdEf0123456789GhIjKlMn",
    "sendgrid": "SG." + "aBcDeFgHiJkLmNoPqR.sTuVwXyZ0123456789aBcD",
    "mailgun": "key-" + "0123456789abcdef0123456789abcdee",
    "shopify": "shpat_" + "0123456789abcdef01234567",
    "linear": "lin_api_" + "AbCdEfGhIjKlMnOpQrStUv",
    "notion": "ntn_" + "AbCdEfGhIjKlMnOpQrStUvWxYz0123",
    "figma": "figd_" + "AbCdEfGhIjKlMnOpQrSt-_0",
}


@dataclass(frozen=True)
class Recorded:
    """A run that is being recorded."""

    writer: RunWriter

    @property
    def folder(self) -> Path:
        """Where it is written."""
        return self.writer.folder

    def lines(self, *types: str) -> list[dict[str, Any]]:
        """Return its events, of some types or all."""
        text = (self.folder / "events.jsonl").read_text(encoding="utf-8")
        found = [json.loads(line) for line in text.splitlines()]
        return [each for each in found if not types or each["type"] in types]

    def payload(self, event: Mapping[str, Any]) -> Any:
        """Return the payload of an event, wherever it is kept."""
        found = event.get("payload")
        if isinstance(found, dict) and "$blob" in found:
            name = found["$blob"].removeprefix("sha256:")
            content = (self.folder / "blobs" / name[:2] / name).read_bytes()
            return json.loads(content) if "json" in found["media_type"] else content.decode()
        return found

    def wait(self, count: int, *types: str) -> list[dict[str, Any]]:
        """Return the events once there are so many of these types."""
        eventually(lambda: len(self.lines(*types)) >= count)
        return self.lines(*types)

    def sealed(self) -> RunReader:
        """Seal the run, and return what reads it."""
        self.writer.seal(0)
        return RunReader.open(self.folder)


def eventually(true: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait until something is so, or fail."""
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it does not come to be"
        time.sleep(0.005)


def recorded(place: Path, argv: list[str] | None = None) -> Recorded:
    """Begin a run in a folder."""
    about = About(StartedBy("test"), argv or ["test"], os.fspath(place))
    writer = RunWriter.create(place / "runs", about, clock=SystemClock(), randomness=os.urandom)
    return Recorded(writer)
