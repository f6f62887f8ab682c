from __future__ import annotations

import tomllib
from pathlib import Path

from bootstrap.report import VERSION


def test_the_version_is_the_projects() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["version"] == VERSION
