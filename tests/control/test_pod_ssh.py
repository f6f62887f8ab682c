"""A rented pod's SSH: the operator's key is let in, a missing sshd is installed, and nothing of it is ever fatal.

That it runs beside a real supervisor and outlives what that ends is shown in test_pod_start.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from control import pod_ssh
from tests.control.sshd import needs_sshd, wrapped_sshd

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK0wmN/Cr3JXqmLW7u+g9pTh+wyqDHpSQEIQczXkVx9q me"


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def bare(folder: Path, *names: str) -> str:
    """A PATH with nothing on it but a few tools of this machine."""
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).symlink_to(shutil.which(name) or pytest.fail(f"no {name}"))
    return str(folder)


@pytest.fixture
def no_sbin(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine's own sshd is out of the way."""
    monkeypatch.setattr(pod_ssh, "SBIN", ())


def test_keys_are_added_once_and_what_is_there_stays(tmp_path: Path) -> None:
    folder = tmp_path / ".ssh"
    file = pod_ssh.authorize(folder, f"{KEY}\n\n  ssh-rsa B  \n")
    assert file.read_text() == f"{KEY}\nssh-rsa B\n"
    file.write_text(f"ssh-rsa baked-in\n{KEY}\n")
    pod_ssh.authorize(folder, f"{KEY}\nssh-rsa C")
    assert file.read_text() == f"ssh-rsa baked-in\n{KEY}\nssh-rsa C\n"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, file)] == [0o700, 0o600]


@needs_sshd
@pytest.mark.process
def test_an_image_without_sshd_gets_one(tmp_path: Path, no_sbin: None, capsys: pytest.CaptureFixture[str]) -> None:
    with wrapped_sshd(tmp_path / "real") as server:
        tools = bare(tmp_path / "tools", "sh", "cp", "ssh-keygen", "env")
        log = tmp_path / "apt.log"
        program(
            tmp_path / "tools",
            "apt-get",
            f'echo "$DEBIAN_FRONTEND $*" >>{log}\nenv >>{log}\n'
            f'case "$*" in *openssh-server) cp {server.folder}/sshd {tools}/sshd;; esac',
        )
        env = {"PATH": tools, "HOME": str(server.home), "PUBLIC_KEY": KEY, "PASSERELLE_OPERATOR_TOKEN": "pas-planted"}
        assert pod_ssh.serve(env, tmp_path / "state") == "sshd runs, openssh-server was installed"
        assert server.wait() > 0
    asked = log.read_text()
    assert "noninteractive -qq -o Acquire::Retries=3 update" in asked
    assert "install --no-install-recommends openssh-server" in asked
    assert "pas-planted" not in asked, "apt needs none of the pod's secrets"
    assert "beside the engine's start" in capsys.readouterr().out


def test_apt_that_fails_says_its_last_words(tmp_path: Path, no_sbin: None) -> None:
    tools = bare(tmp_path / "tools", "sh")
    program(tmp_path / "tools", "apt-get", "echo 'E: Could not resolve host'; exit 100")
    with pytest.raises(pod_ssh.NoSsh, match="exit code 100: E: Could not resolve host"):
        pod_ssh.serve({"PATH": tools, "HOME": str(tmp_path), "PUBLIC_KEY": KEY}, tmp_path)


def test_an_image_with_other_packages_says_so(tmp_path: Path, no_sbin: None) -> None:
    with pytest.raises(pod_ssh.NoSsh, match="no apt-get"):
        pod_ssh.serve({"PATH": bare(tmp_path / "none"), "HOME": str(tmp_path), "PUBLIC_KEY": KEY}, tmp_path)


def test_a_package_without_the_program_is_no_success(tmp_path: Path, no_sbin: None) -> None:
    tools = bare(tmp_path / "tools", "sh")
    program(tmp_path / "tools", "apt-get", "exit 0")
    with pytest.raises(pod_ssh.NoSsh, match="brought no sshd"):
        pod_ssh.serve({"PATH": tools, "HOME": str(tmp_path), "PUBLIC_KEY": KEY}, tmp_path)


@pytest.mark.process
def test_the_host_key_stays_over_a_stop_where_the_state_does(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"]}
    first, again = (pod_ssh.host_key(tmp_path / "state", env) for _ in range(2))
    assert first != again
    assert first.read_bytes() == again.read_bytes()
    (tmp_path / "state" / "ssh_host_ed25519_key").chmod(0o644)
    assert stat.S_IMODE(pod_ssh.host_key(tmp_path / "state", env).stat().st_mode) == 0o600


RUN = """
import os
from pathlib import Path
from control import pod_ssh
pod_ssh.start_ssh(os.environ, Path({state!r}))
print('went on', flush=True)
"""


@pytest.mark.process
@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("", "went on\n"),
        (KEY, "passerelle: no SSH: [Errno 20] Not a directory"),
    ],
)
def test_whatever_fails_the_pod_goes_on(key: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "file"), "PUBLIC_KEY": key}
    argv = [sys.executable, "-c", RUN.format(state=str(tmp_path))]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    assert "went on\n" in done.stdout
    assert said in done.stdout
