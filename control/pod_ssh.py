"""A rented pod's SSH server: it lets the operator's key in, and is installed where the image has none.

It travels in the pod's start command in front of control.pod_start, and so is standard library and imports nothing of
ours. All of it happens in a process of its own: the engine waits for no package, and what fails here is said and ends
nothing. The server is no child of the supervisor's and has no mark of it, so no restart there can end it.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

PACKAGE = "openssh-server"
INSTALL = (
    ("apt-get", "-qq", "-o", "Acquire::Retries=3", "update"),
    ("apt-get", "-qq", "-y", "-o", "DPkg::Lock::Timeout=120", "install", "--no-install-recommends", PACKAGE),
)
INSTALL_S = 300  # each
SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")  # a container's PATH may leave them out
OPTIONS = ("PasswordAuthentication=no", "KbdInteractiveAuthentication=no", "PermitRootLogin=prohibit-password")


class NoSsh(Exception):
    """Why there is no SSH; the pod goes on without."""


def start_ssh(env: Mapping[str, str], state: Path) -> None:
    """Return at once. Without PUBLIC_KEY nobody could log in, so nothing is done."""
    if not env.get("PUBLIC_KEY") or os.fork():
        return
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setsid()
    try:
        tell("SSH: " + serve(env, state))
    except (NoSsh, OSError, subprocess.SubprocessError) as error:
        tell(f"no SSH: {error}")
    finally:
        os._exit(0)


def tell(text: str) -> None:
    sys.stdout.write(f"passerelle: {text}\n")
    sys.stdout.flush()


def serve(env: Mapping[str, str], state: Path) -> str:
    """Start sshd, which goes into the background by itself; what was done. Raises NoSsh, OSError, SubprocessError."""
    keys = authorize(Path(env.get("HOME") or Path.home()) / ".ssh", env["PUBLIC_KEY"])
    # sshd and apt need none of the pod's secrets.
    plain = {name: env[name] for name in env if name in ("PATH", "HOME") or name.lower().endswith("_proxy")}
    plain["PATH"] = os.pathsep.join((env.get("PATH") or os.defpath, *SBIN))
    installed = "" if shutil.which("sshd", path=plain["PATH"]) else install(plain)
    program = shutil.which("sshd", path=plain["PATH"])
    if program is None:
        raise NoSsh(f"{PACKAGE} brought no sshd")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    files = f"AuthorizedKeysFile=.ssh/authorized_keys {keys}"
    options = [word for option in (files, *OPTIONS) for word in ("-o", option)]
    call((program, "-h", str(host_key(state, plain)), *options), plain, 30)
    return "sshd runs" + installed


def authorize(folder: Path, keys: str) -> Path:
    """Add them to authorized_keys; what is there stays."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = folder / "authorized_keys"
    there = file.read_text().splitlines() if file.exists() else []
    there += [key for line in keys.splitlines() if (key := line.strip()) and key not in there]
    file.write_text("\n".join(there) + "\n")
    file.chmod(0o600)
    return file


def install(env: Mapping[str, str]) -> str:
    """With Debian's and Ubuntu's packages. Raises NoSsh for an image that has others."""
    if shutil.which("apt-get", path=env["PATH"]) is None:
        raise NoSsh(f"the image has no sshd, and no apt-get to install {PACKAGE} with")
    tell(f"SSH: the image has no sshd; installing {PACKAGE} beside the engine's start")
    for argv in INSTALL:
        call(argv, {**env, "DEBIAN_FRONTEND": "noninteractive"}, INSTALL_S)
    return f", {PACKAGE} was installed"


def host_key(state: Path, env: Mapping[str, str]) -> Path:
    """Kept with the pod's state, so that a pod with a volume has the same one after a stop and a start.

    sshd gets a copy: not every volume keeps the mode that it insists on.
    """
    kept = state / "ssh_host_ed25519_key"
    if not kept.exists():
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        call(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "pod", "-f", str(kept)), env, 30)
    copy = Path(tempfile.mkdtemp(prefix="passerelle-ssh-")) / "host_key"
    copy.touch(mode=0o600)
    copy.write_bytes(kept.read_bytes())
    return copy


def call(argv: tuple[str, ...], env: Mapping[str, str], within_s: float) -> None:
    """Raises NoSsh with the program's last words. A file takes them: what it leaves behind may hold a pipe open."""
    with tempfile.TemporaryFile() as out:
        done = subprocess.run(
            argv, env=dict(env), stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, timeout=within_s
        )
        out.seek(0)
        said = " ".join(out.read().decode("utf-8", "replace").split())[-300:]
    if done.returncode != 0:
        raise NoSsh(f"{' '.join(argv[:1])}: exit code {done.returncode}: {said}")
