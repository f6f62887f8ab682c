"""What the engine's own interpreter is asked and told before an engine starts: `python -c THIS_TEXT VERB …`."""

# `torch` and `size REPO REVISION` answer in JSON. `apply STEP REPO REVISION WORD…` mends what a model needs, and says
# "there" where it was mended already; `undo` takes back what was applied. Both may be repeated.

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata, util
from pathlib import Path
from typing import Any

# GPT-2's table: printable bytes are themselves, the others are the characters from U+0100 on.
SHIM = """
# passerelle: removed from transformers 5.5, and models' own tokenizers import it from here
def bytes_to_unicode():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + at) for at, byte in enumerate(others)}
"""
KNOWS = "import sys, transformers; transformers.AutoConfig.from_pretrained(sys.argv[1], revision=sys.argv[2] or None)"


def torch() -> dict[str, Any]:
    """What torch can do with the GPUs."""
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # the host is asked for, not the share of one engine
    try:
        it = importlib.import_module("torch")
    except ImportError as error:
        return {"error": f"no torch: {error}"}
    answer = {"cuda": it.version.cuda, "count": 0, "error": None}
    try:
        answer["count"] = it.cuda.device_count()
        for index in range(answer["count"]):
            it.zeros(1, device=f"cuda:{index}")  # a GPU that is listed may still be of no use
    except Exception as error:  # noqa: BLE001  whatever it is, it is the answer
        answer["error"] = str(error)
    return answer


def size(repo: str, revision: str) -> dict[str, Any]:
    """How large a model's weights are, how much of them is here, and how they are quantised."""
    if Path(repo).is_dir():
        sizes = {path.name: path.stat().st_size for path in Path(repo).iterdir()}
        cached, config = sum(sizes.values()), json.loads(Path(repo, "config.json").read_text("utf-8"))
    else:
        os.environ.pop("HF_HUB_OFFLINE", None)  # read once, at the import
        hub = importlib.import_module("huggingface_hub")
        info = hub.HfApi().model_info(repo, revision=revision or None, files_metadata=True, timeout=20)
        sizes, config = {file.rfilename: file.size or 0 for file in info.siblings}, info.config or {}
        blobs = Path(hub.constants.HF_HUB_CACHE, f"models--{repo.replace('/', '--')}", "blobs")
        cached = sum(path.stat().st_size for path in blobs.iterdir()) if blobs.is_dir() else 0
    # As vLLM loads them: safetensors where there are any, else what torch saved.
    kinds = [sum(each for name, each in sizes.items() if name.endswith(end)) for end in (".safetensors", ".bin")]
    total, said = kinds[0] or kinds[1], config.get("quantization_config") or {}
    quantisation = "modelopt_fp4" if "FP4" in str(said.get("quant_algo", "")) else said.get("quant_method")
    return {"bytes": total, "cached": min(cached, total), "quantisation": quantisation}


def ignore(undo: bool, repo: str, revision: str, *patterns: str) -> bool:
    """Layers that the quantiser left out of the model's `quantization_config.ignore`."""
    path = Path(repo, "config.json")
    if not Path(repo).is_dir():
        hub = importlib.import_module("huggingface_hub")
        path = Path(hub.hf_hub_download(repo, "config.json", revision=revision or None))
    kept, config = path.with_name("config.json.passerelle"), json.loads(path.read_text("utf-8"))
    ignored = config.setdefault("quantization_config", {}).setdefault("ignore", [])
    missing = [pattern for pattern in patterns if pattern not in ignored]
    if undo and kept.exists():
        kept.replace(path)
    elif missing and not undo:
        if not kept.exists():
            kept.write_bytes(path.read_bytes())
        ignored.extend(missing)
        path.unlink()  # in the Hub's cache it is a link to a blob that other revisions share, and the blob stays
        path.write_text(json.dumps(config, indent=2), "utf-8")
    return bool(missing)


def shim(undo: bool, repo: str, revision: str, name: str) -> bool:
    """A function that models' own tokenizers still import from transformers."""
    found = util.find_spec("transformers")
    if name != "bytes_to_unicode" or found is None or not found.submodule_search_locations:
        sys.exit(f"there is no shim {name}, or no transformers")
    file = Path(found.submodule_search_locations[0], "convert_slow_tokenizer.py")
    text = file.read_text("utf-8")
    file.write_text(text.removesuffix(SHIM) if undo or name in text else text + SHIM, "utf-8")
    return name not in text


def package(undo: bool, name: str, version: str = "") -> bool:
    """A package that the engine needs, in this version or in any."""
    was = Path(sys.prefix, f".passerelle-{name}-was")
    try:
        now = metadata.version(name)
    except metadata.PackageNotFoundError:
        now = ""
    if undo and was.exists():
        pip(name, was.read_text("utf-8") or None)
        was.unlink()
    if undo or (now and version in ("", now)):
        return False
    if not was.exists():
        was.write_text(now, "utf-8")
    pip(name, version)
    return True


def pip(name: str, version: str | None) -> None:
    """None: it goes."""
    words = ["uninstall", "-q", "-y", name] if version is None else ["install", "-q", f"{name}=={version}".rstrip("=")]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True)


def transformers(undo: bool, repo: str, revision: str, version: str) -> bool:
    """Another version of transformers, and back by itself when it does not know the model."""
    changed = package(undo, "transformers", version)
    if changed:
        asked = subprocess.run(
            [sys.executable, "-c", KNOWS, repo, revision], capture_output=True, text=True, check=False
        )
        sys.stderr.write(asked.stderr[-2000:])
        if "does not recognize this architecture" in asked.stderr:
            package(True, "transformers")
            sys.exit(f"transformers {version} does not know {repo} either; it is what it was again")
    return changed


STEPS: dict[str, Callable[..., bool]] = {
    "transformers": transformers,
    "fastokens": lambda undo, *_: package(undo, "fastokens"),
    "tokenizer-shim": shim,
    "config-ignore": ignore,
}


def main(verb: str, *words: str) -> str:
    if verb in ("torch", "size"):
        return json.dumps(torch() if verb == "torch" else size(*words))
    step, *rest = words
    changed = STEPS[step](verb == "undo", *rest)
    return "undone" if verb == "undo" else "applied" if changed else "there"


if __name__ == "__main__":
    print(main(*sys.argv[1:]))  # noqa: T201
