"""Real vLLM's /metrics, once a second: six agents on an H200 (0.25.0), and on a CPU with a small KV cache (0.32.0)."""

from __future__ import annotations

import tarfile
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "vllm"


@cache
def h200() -> tuple[str, ...]:
    """111 scrapes of a healthy run."""
    return _read("h200-healthy.tar.xz")


@cache
def cpu() -> tuple[str, ...]:
    """61 scrapes with waits by capacity and preemptions."""
    return _read("cpu-six-agents.tar.xz")


def _read(name: str) -> tuple[str, ...]:
    with tarfile.open(FOLDER / name) as archive:
        scrapes = [m for m in archive.getmembers() if m.isfile() and m.name.endswith(".txt")]
        texts = []
        for member in sorted(scrapes, key=lambda m: m.name):
            file = archive.extractfile(member)
            assert file is not None
            texts.append(file.read().decode())
    return tuple(texts)
