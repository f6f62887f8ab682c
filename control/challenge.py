"""Did a server run what it was given? A product that only a shell can have computed tells it. Pure.

RunPod's SSH proxy refuses a command with "Error: Your SSH client doesn't support PTY", on stdout; asked with a PTY it
echoes the command, runs nothing and exits 0 (measured 2026-11). An echo holds both factors, and never the product.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from control.errors import Unreachable

PROXY_HOST = "ssh.runpod.io"
PROXY_WORDS = "support PTY"

NEED_TCP = "use the pod's own sshd over TCP: create the pod with the port 22/tcp, and an image that starts sshd"

MOST = 2**31
"""A product of two below it fits every shell's integers."""


class NoShell(Unreachable):
    """It let us in and does not run what it is given."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """Two numbers below MOST that nobody else knows beforehand."""

    one: int
    two: int

    def command(self, programs: Sequence[str], words: Sequence[str]) -> str:
        """For any login shell: the product on a first line, then the first of the programs whose first word is there,
        with `words`; the last of them whether it is there or not."""
        *others, last = programs
        given = shlex.join(words)
        tries = [f"command -v {program.split()[0]} >/dev/null 2>&1 && exec {program} {given}; " for program in others]
        script = f"echo $(({self.one} * {self.two})); {''.join(tries)}exec {last} {given}"
        return f"exec sh -c {shlex.quote(script)}"

    def said(self, out: bytes, err: bytes, status: int | None, where: str) -> bytes:
        """What the program itself wrote to stdout. Raises NoShell when the product is missing."""
        proof, _, rest = out.partition(b"\n")
        if proof.strip() != str(self.one * self.two).encode():
            raise _no_shell(where, status, out + err)
        return rest


def proxy_refused(host: str) -> NoShell | None:
    """Of an address that is not worth a connection."""
    if host != PROXY_HOST:
        return None
    return NoShell(f"{PROXY_HOST} is RunPod's SSH proxy, which runs no commands", NEED_TCP)


def _no_shell(where: str, status: int | None, said: bytes) -> NoShell:
    words = " ".join(said.decode("utf-8", "replace").split())[:200]
    if PROXY_WORDS in words:
        return NoShell(f"{where} is RunPod's SSH proxy: it refuses commands ({words})", NEED_TCP)
    if status == 0:
        return NoShell(
            f"{where} says that it ran our command, and did not: it behaves like RunPod's SSH proxy", NEED_TCP
        )
    return NoShell(f"the SSH server at {where} did not run our command (exit {status}): {words or 'no word'}", NEED_TCP)
