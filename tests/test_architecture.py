"""The laws that no linter holds: mirrored tests, what an import drags in, whose package it is, how small the pod is."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("console", "control", "bridge", "bootstrap")


def sources(package: str) -> list[Path]:
    return [path.relative_to(ROOT) for path in sorted((ROOT / package).rglob("*.py"))]


def code_lines(path: Path) -> int:
    return sum(1 for line in (ROOT / path).read_text("utf-8").splitlines() if line.strip() and line.strip()[0] != "#")


def test_every_test_file_has_the_file_that_it_tests() -> None:
    for package in PACKAGES:
        for test in sorted((ROOT / "tests" / package).rglob("test_*.py")):
            mirrored = ROOT / test.relative_to(ROOT / "tests").with_name(test.name.removeprefix("test_"))
            assert mirrored.exists(), f"{test} tests no file of that name"


@pytest.mark.parametrize("package", PACKAGES)
def test_the_package_is_ours_and_not_another_of_that_name(package: str) -> None:
    module = importlib.import_module(package)
    assert module.__file__ is not None
    assert ROOT in Path(module.__file__).parents
    assert module.__doc__


def test_the_bridge_is_small() -> None:
    assert sum(map(code_lines, sources("bridge"))) < 1_700


@pytest.mark.xfail(strict=True, reason="bootstrap is twice the size that it was given: docs/decisions.md, Size")
def test_the_pod_side_is_small() -> None:
    total = sum(code_lines(path) for package in ("bridge", "bootstrap") for path in sources(package))
    assert total < 3_000


def test_no_file_is_longer_than_300_lines() -> None:
    lengths = {p: len((ROOT / p).read_text("utf-8").splitlines()) for package in PACKAGES for p in sources(package)}
    assert [path for path, lines in lengths.items() if lines > 300] == []


def test_every_module_says_what_it_owns() -> None:
    for package in PACKAGES:
        for path in sources(package):
            assert (ROOT / path).read_text("utf-8").startswith('"""'), path


def loaded_by(module: str) -> set[str]:
    """Top-level modules in sys.modules after `import module` in a fresh interpreter."""
    code = f"import {module}, sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


HEAVY = {
    "anthropic",
    "httpx2",
    "fastapi",
    "starlette",
    "uvicorn",
    "runpod",
    "huggingface_hub",
    "asyncssh",
    "torch",
    "pydantic",
}


@pytest.mark.process
@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("console.app", HEAVY | {"httpx", "prometheus_client", "click"}),
        ("control.cli", HEAVY | {"textual", "httpx", "prometheus_client"}),
        ("control.observe.session", HEAVY | {"textual", "httpx", "prometheus_client"}),
        ("bridge.__main__", {"textual", "click", "psutil", "anthropic", "platformdirs", "rich"}),
        ("bootstrap.__main__", HEAVY | {"httpx", "textual", "click", "psutil", "msgspec", "prometheus_client"}),
    ],
)
def test_an_import_drags_in_no_more_than_it_needs(module: str, absent: set[str]) -> None:
    assert loaded_by(module) & absent == set()


def test_nothing_points_at_one_machine_or_at_a_registry() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    banned = ("/work/" + "shared", "pypi" + ".org", "files.python" + "hosted", "registry.npm" + "js")
    for name in listed:
        path = ROOT / name
        if path.suffix in {".py", ".toml", ".md", ".txt", ".tcss", ".json", ""} and path.is_file():
            text = path.read_text("utf-8", "replace")
            assert not [word for word in banned if word in text], name
