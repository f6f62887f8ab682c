"""A package that the engine needs and the image lacks. Run by the engine's interpreter.

package check|apply|undo NAME
"""

import importlib.util
import subprocess
import sys


def main(verb: str, name: str) -> int:
    there = importlib.util.find_spec(name) is not None
    if verb == "check" or (verb == "apply" and there):
        return 0 if there else 1
    words = ["install", "-q"] if verb == "apply" else ["uninstall", "-q", "-y"]
    return subprocess.run([sys.executable, "-m", "pip", *words, name], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
