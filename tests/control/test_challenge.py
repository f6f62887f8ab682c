"""The challenge: only what computed it passes, whatever a server says instead."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.challenge import MOST, Challenge, NoShell, proxy_refused

NUMBERS = st.integers(2, MOST - 1)


@pytest.mark.process
def test_a_real_shell_passes_and_runs_the_first_program_that_is_there() -> None:
    challenge = Challenge(MOST - 1, MOST - 2)
    command = challenge.command(["no-such-program-here", "echo first", "echo second"], ["a b", "$(id)"])
    done = subprocess.run(["sh", "-c", command], capture_output=True)
    assert challenge.said(done.stdout, done.stderr, done.returncode, "p") == b"first a b $(id)\n"


@given(NUMBERS, NUMBERS)
def test_an_echo_of_the_command_never_passes(one: int, two: int) -> None:
    challenge = Challenge(one, two)
    command = challenge.command(["passerelle-bootstrap"], ["status"]).encode()
    for echo in (command, command + b"\r\n", b"\n" + command):
        with pytest.raises(NoShell, match="says that it ran"):
            challenge.said(echo, b"", 0, "p")


@given(st.binary(max_size=60), st.sampled_from([0, 1, 127, None]))
def test_no_other_bytes_pass(out: bytes, status: int | None) -> None:
    with pytest.raises(NoShell):
        Challenge(MOST - 1, MOST - 2).said(out, b"", status, "p")


def test_what_it_said_instead_is_told() -> None:
    with pytest.raises(NoShell, match="This account is not available"):
        Challenge(3, 5).said(b"This account is not available.\n", b"", 1, "p")
    with pytest.raises(NoShell, match="RunPod's SSH proxy: it refuses"):
        Challenge(3, 5).said(b"Error: Your SSH client doesn't support PTY\n", b"", 1, "p")


def test_an_address_that_is_the_proxys() -> None:
    assert proxy_refused("194.26.196.6") is None
    assert "22/tcp" in (proxy_refused("ssh.runpod.io") or NoShell("")).remedy
