"""Prints as JSON how large a model's weights are, how much of them is here, and how they are quantised.

Run by the engine's interpreter as: model_size REPO [REVISION]
"""

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any


def weights(sizes: dict[str, int]) -> int:
    """The bytes that vLLM would load: safetensors where there are any, else what torch saved."""
    of = {end: sum(size for name, size in sizes.items() if name.endswith(end)) for end in (".safetensors", ".bin")}
    return of[".safetensors"] or of[".bin"]


def local(folder: Path) -> dict[str, Any]:
    total = weights({path.name: path.stat().st_size for path in folder.iterdir()})
    return {"bytes": total, "cached": total, **quantisation(json.loads((folder / "config.json").read_text("utf-8")))}


def remote(repo: str, revision: str | None) -> dict[str, Any]:
    os.environ.pop("HF_HUB_OFFLINE", None)  # read once, at the import
    hub = importlib.import_module("huggingface_hub")
    info = hub.HfApi().model_info(repo, revision=revision, files_metadata=True, timeout=20)
    folder = Path(hub.constants.HF_HUB_CACHE, f"models--{repo.replace('/', '--')}", "blobs")
    cached = sum(path.stat().st_size for path in folder.iterdir()) if folder.is_dir() else 0
    total = weights({file.rfilename: file.size or 0 for file in info.siblings})
    return {"bytes": total, "cached": min(cached, total), **quantisation(info.config or {})}


def quantisation(config: dict[str, Any]) -> dict[str, Any]:
    said = config.get("quantization_config") or {}
    fp4 = "FP4" in str(said.get("quant_algo", ""))
    return {"quantisation": "modelopt_fp4" if fp4 else said.get("quant_method")}


if __name__ == "__main__":
    place, *rest = sys.argv[1:]
    print(json.dumps(local(Path(place)) if Path(place).is_dir() else remote(place, rest[0] if rest else None)))  # noqa: T201
