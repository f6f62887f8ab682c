"""The zipapp: the same bytes from the same sources, complete, and running on every Python of the pod."""

from __future__ import annotations

import ast
import base64
import io
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from control import zipapp
from control.errors import Refused

ROOT = Path(__file__).parents[2]
IMAGE = {"fastapi", "starlette", "uvicorn", "httpx", "aiohttp", "msgspec", "prometheus_client", "pydantic", "uvloop"}
"""What the vLLM image holds, as far as the bridge may use it."""


def names(app: zipapp.Zipapp) -> list[str]:
    return zipfile.ZipFile(io.BytesIO(app.data)).namelist()


def test_it_is_the_same_byte_for_byte() -> None:
    assert zipapp.build() == zipapp.build()


def test_neither_time_nor_mode_nor_line_ends_nor_order_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    for variant in ("a", "b"):
        root = tmp_path / variant
        for package in (*zipapp.OURS, *zipapp.TRAVELS):
            shutil.copytree(zipapp._folder(package), root / package, copy_function=shutil.copyfile)
        if variant == "b":
            (root / "bridge" / "__pycache__").mkdir(exist_ok=True)
            (root / "bridge" / "__pycache__" / "x.pyc").write_bytes(b"cached")
            for path in root.rglob("*.py"):
                path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
                path.chmod(0o755)
        monkeypatch.setattr(zipapp, "_folder", lambda package, root=root: root / package)
        built.append(zipapp.build())
    assert built[0] == built[1]


def test_everything_the_pod_needs_is_inside() -> None:
    inside = names(zipapp.build())
    assert inside == sorted(inside)
    for package in zipapp.OURS:
        for path in (ROOT / package).rglob("*"):
            if path.is_file() and path.suffix in {".py", ".toml"} and "image" not in path.parts:
                assert path.relative_to(ROOT).as_posix() in inside
    assert "bridge/usage.txt" in inside
    assert not [name for name in inside if "__pycache__" in name or name.startswith(("control", "console", "tests"))]


def test_what_the_bridge_imports_is_in_the_image_or_travels() -> None:
    allowed = set(sys.stdlib_module_names) | IMAGE | set(zipapp.OURS) | set(zipapp.TRAVELS) | {"httptools"}
    for path in (ROOT / "bridge").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            imported += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            assert {name.partition(".")[0] for name in imported} <= allowed, path


def test_the_published_form_is_text_and_gives_the_same_bytes() -> None:
    app = zipapp.build()
    assert base64.b64decode(app.text) == app.data
    assert app.text.isascii()
    assert b"\0" not in app.text
    assert len(app.text) < 1_000_000


def test_a_part_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(zipapp.TRAVELS, "no_such_package_here", "no-such-package-here")
    with pytest.raises(Refused, match="no_such_package_here"):
        zipapp.build()


def python_of(version: str) -> str | None:
    """That Python, where this machine has one: on PATH, or one of pyenv's, whose stubs on PATH may not run."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for candidate in (shutil.which(f"python{version}"), *pyenv.glob(f"{version}.*/bin/python{version}")):
        if candidate and subprocess.run([candidate, "-c", ""], capture_output=True, timeout=30).returncode == 0:
            return str(candidate)
    return None


@pytest.mark.process
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_bootstrap_starts_with_nothing_installed(version: str, tmp_path: Path) -> None:
    python = python_of(version)
    if python is None:
        pytest.skip(f"this machine has no Python {version}")
    (tmp_path / "passerelle.pyz").write_bytes(zipapp.build().data)
    for words in (["--help"], ["run", "--help"], ["ctl", "--help"]):
        argv = [python, "-I", "-S", str(tmp_path / "passerelle.pyz"), *words]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "usage" in done.stdout.lower()
    assert [path.name for path in tmp_path.iterdir()] == ["passerelle.pyz"]


@pytest.mark.process
def test_the_bridge_starts_from_it_and_not_from_what_is_installed(tmp_path: Path) -> None:
    (tmp_path / "passerelle.pyz").write_bytes(zipapp.build().data)
    argv = [sys.executable, "-P", str(tmp_path / "passerelle.pyz"), "bridge", "--help"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "usage" in done.stdout.lower()
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'passerelle.pyz')!r}); import bridge; print(bridge.__file__)"
    )
    where = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "passerelle.pyz" in where.stdout
