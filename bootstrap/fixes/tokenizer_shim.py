"""Gives transformers back a function that models' own tokenizers still import from it. Run by the engine's interpreter.

tokenizer_shim check|apply|undo bytes_to_unicode
"""

import importlib.util
import sys
from pathlib import Path

MARK = "# passerelle: removed from transformers 5.5, and models' own tokenizers import it from here\n"
# GPT-2's table: printable bytes are themselves, the others are the characters from U+0100 on.
SHIM = f"""
{MARK}def bytes_to_unicode():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {{byte: chr(byte) for byte in printable}} | {{byte: chr(256 + at) for at, byte in enumerate(others)}}
"""


def main(verb: str, name: str) -> int:
    found = importlib.util.find_spec("transformers")
    if name != "bytes_to_unicode" or found is None or not found.submodule_search_locations:
        return 2
    file = Path(found.submodule_search_locations[0], "convert_slow_tokenizer.py")
    text = file.read_text("utf-8")
    there = name in text
    if verb == "apply" and not there:
        file.write_text(text + SHIM, "utf-8")
    if verb == "undo":
        file.write_text(text.removesuffix(SHIM), "utf-8")
    return 0 if there or verb != "check" else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
