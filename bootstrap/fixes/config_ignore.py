"""Adds layers to a model's `quantization_config.ignore`, which its quantiser left out. Run by the engine's interpreter.

config_ignore check|apply|undo REPO REVISION PATTERN…
"""

import importlib
import json
import sys
from pathlib import Path
from typing import Any


def config_of(repo: str, revision: str) -> Path:
    if Path(repo).is_dir():
        return Path(repo, "config.json")
    hub = importlib.import_module("huggingface_hub")
    return Path(hub.hf_hub_download(repo, "config.json", revision=revision or None))


def main(verb: str, repo: str, revision: str, *patterns: str) -> int:
    path = config_of(repo, revision)
    kept = path.with_name("config.json.passerelle")
    config: dict[str, Any] = json.loads(path.read_text("utf-8"))
    ignored: list[str] = config.setdefault("quantization_config", {}).setdefault("ignore", [])
    missing = [pattern for pattern in patterns if pattern not in ignored]
    if verb == "check":
        return 1 if missing else 0
    if verb == "undo" and kept.exists():
        kept.replace(path)
    elif verb == "apply" and missing:
        if not kept.exists():
            kept.write_bytes(path.read_bytes())
        ignored.extend(missing)
        # In the Hub's cache the name is a link to a blob that other revisions share: the link goes, the blob stays.
        path.unlink()
        path.write_text(json.dumps(config, indent=2), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
