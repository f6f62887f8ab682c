"""Builds the pod's code: bridge, bootstrap and the pure-Python parts that the vLLM image lacks, as one zipapp.

The same sources give the same bytes on every machine: fixed order, dates, modes and line ends, and nothing compressed,
since two zlibs may pack the same file differently. `python3 passerelle.pyz run …` and `… ctl …` are bootstrap's,
`… bridge …` is the bridge.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from control.errors import Refused

OURS = ("bootstrap", "bridge")
TRAVELS: dict[str, str] = {}
"""Packages that the bridge imports and the vLLM image lacks, each with the name of its distribution. None so far."""

DATE = (1980, 1, 1, 0, 0, 0)
"""The first that a zip file can say."""

LEFT_OUT = ("__pycache__", "image")
"""Folders: caches, and the recipe of the pod's own image."""

SHEBANG = b"#!/usr/bin/env python3\n"
MAIN = b'''"""The pod's code in one file: bootstrap, and the bridge by its name as the first word."""

import sys

if sys.argv[1:2] == ["bridge"]:
    del sys.argv[1]
    from bridge.__main__ import main
else:
    from bootstrap.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
'''


@dataclass(frozen=True, slots=True)
class Zipapp:
    """The file's bytes."""

    data: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def text(self) -> bytes:
        """As it is published (control.hub.CODE): base64, in lines as e-mail has them."""
        return base64.encodebytes(self.data)


def build() -> Zipapp:
    """Raises Refused when a part is not installed here."""
    out = io.BytesIO(SHEBANG)
    out.seek(0, io.SEEK_END)
    with zipfile.ZipFile(out, "a", zipfile.ZIP_STORED) as archive:
        for name, data in sorted(_entries()):
            entry = zipfile.ZipInfo(name, DATE)
            entry.create_system = 3  # Unix, wherever it is built
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, data)
    return Zipapp(out.getvalue())


def _entries() -> Iterator[tuple[str, bytes]]:
    yield "__main__.py", MAIN
    for package in (*OURS, *TRAVELS):
        root = _folder(package)
        for path in root.rglob("*"):
            inside = path.relative_to(root)
            if path.is_file() and not set(inside.parts) & set(LEFT_OUT):
                yield f"{package}/{inside.as_posix()}", path.read_bytes().replace(b"\r\n", b"\n")
    for distribution in TRAVELS.values():
        yield from _licences(distribution)


def _folder(package: str) -> Path:
    """Where the package lies, without importing it."""
    spec = importlib.util.find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    if not places or not Path(places[0]).is_dir():
        raise Refused(f"{package} is not installed here as plain files", "pip install 'passerelle[bridge,operator]'")
    return Path(places[0])


def _licences(distribution: str) -> Iterator[tuple[str, bytes]]:
    """What others wrote travels with their licence."""
    for file in importlib.metadata.files(distribution) or ():
        if "licen" in file.name.lower():
            text = Path(str(file.locate())).read_bytes()
            yield f"licences/{distribution}/{file.name}", text.replace(b"\r\n", b"\n")
