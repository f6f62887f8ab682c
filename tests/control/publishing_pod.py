"""A stopped embedded pod, made of its files alone: what the verbs of `passerelle config` need of one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from control.cli import run
from control.local.store import LocalPod, Store
from control.models import PodId, Tokens
from tests.control.publishing import OPERATOR

POD = PodId("local-0001")
TEXT = """# mine
[serve]
model = "tiny"
images = {images}

[models.tiny]
repo = "owner/tiny"
"""


def text(images: int = 4) -> str:
    return TEXT.format(images=images)


@dataclass
class Cli:
    """One command line after the other, on one home."""

    home: Path
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *argv: str) -> tuple[int, str, str]:
        """(exit code, stdout, stderr)"""
        code = run(list(argv), None)
        out, err = self.capsys.readouterr()
        return code, out, err

    def good(self, *argv: str) -> str:
        code, out, err = self(*argv)
        assert (code, err) == (0, ""), (out, err)
        return out

    def values(self, *argv: str) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.good(*argv, "--json"))
        return found

    def file(self, content: str, name: str = "my.toml") -> str:
        (self.home / name).write_text(content)
        return str(self.home / name)

    @property
    def hub(self) -> Path:
        return Store(self.home).hub(POD)


def stopped_pod(home: Path) -> None:
    store = Store(home)
    store.save(LocalPod(POD, 1_800_000_000.0, "simulated", (), 65_000, 0.5))
    store.save_tokens(POD, Tokens("pas-client-0123456789abcdefghijkl", OPERATOR))
    store.hub(POD).mkdir()
