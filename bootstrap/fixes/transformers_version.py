"""Another version of transformers, and back by itself when it does not know the model. Run by the engine's interpreter.

transformers_version check|apply|undo VERSION REPO REVISION
"""

import importlib.metadata
import subprocess
import sys
from pathlib import Path

WAS = Path(sys.prefix, ".passerelle-transformers-was")
KNOWS = "import sys, transformers; transformers.AutoConfig.from_pretrained(sys.argv[1], revision=sys.argv[2] or None)"


def install(version: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", f"transformers=={version}"], check=True)


def recognised(repo: str, revision: str) -> bool:
    asked = subprocess.run([sys.executable, "-c", KNOWS, repo, revision], capture_output=True, text=True, check=False)
    sys.stderr.write(asked.stderr[-2000:])
    return "does not recognize this architecture" not in asked.stderr


def main(verb: str, version: str, repo: str, revision: str) -> int:
    now = importlib.metadata.version("transformers")
    if verb == "check":
        return 0 if now == version else 1
    if verb == "undo":
        if WAS.exists():
            install(WAS.read_text("utf-8"))
            WAS.unlink()
        return 0
    if now == version:
        return 0
    if not WAS.exists():
        WAS.write_text(now, "utf-8")
    install(version)
    if recognised(repo, revision):
        return 0
    sys.stderr.write(f"transformers {version} does not know {repo} either; back to {now}\n")
    return main("undo", version, repo, revision) or 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:5]))
