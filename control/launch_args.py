"""The start command of a rented pod: one line with the program that fetches, checks and runs the pod's code. Pure.

The program (control.pod_ssh and control.pod_start) is carried as base64, so that no shell, no JSON and no splitting of
the provider's can change a letter of it. No token and no name of a store is in it: they come in the pod's environment.
"""

from __future__ import annotations

import ast
import base64
import shlex
import zlib
from importlib import resources

ENTRYPOINT = ("python3", "-c")
"""In place of the image's own (`vllm serve`). The vLLM image has python3; curl it may not have."""


PARTS = ("pod_ssh.py", "pod_start.py")
"""Files of control, in the order in which they are one program."""


def program() -> str:
    """The parts without comments, docstrings and what they import of each other: what `python3 -c` is given."""
    return "\n".join(_bare(resources.files("control").joinpath(name).read_text("utf-8")) for name in PARTS)


def _bare(source: str) -> str:
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if not _is_ours(node)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def _is_ours(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "control"


def command() -> tuple[str, ...]:
    """What follows ENTRYPOINT: one argument."""
    packed = base64.b64encode(zlib.compress(program().encode(), 9)).decode()
    return (f"import base64,zlib;exec(zlib.decompress(base64.b64decode('{packed}')))",)


def line() -> str:
    """The whole as one line for a shell, for a template that has no field for a list."""
    return shlex.join((*ENTRYPOINT, *command()))
