"""What a rented pod runs first: fetches its code from the Hub, checks it, and becomes it. Standard library, one file.

It travels inside the pod's start command (control.launch_args) and so imports nothing of ours save control.pod_ssh,
which travels in front of it. Everything it needs is in the environment: PASSERELLE_HUB, PASSERELLE_OPERATOR_TOKEN,
HF_TOKEN, and PASSERELLE_STATE, HF_ENDPOINT, PUBLIC_KEY if they are set. It trusts pod.toml when its signature is right,
and the code when it has the sha256 that pod.toml names. What was good last time is kept, and runs when the Hub has
nothing better or nothing at all.
"""

import base64
import hashlib
import hmac
import http.client
import os
import re
import signal
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from control.pod_ssh import start_ssh

Env = Mapping[str, str]
Files = tuple[bytes, bytes, bytes]
NAMES = ("pod.toml", "pod.toml.sig", "passerelle.pyz.b64")
TRIES = 6  # of the Hub, before what was kept is taken
REQUEST_S = 20


class Unfit(Exception):
    """What is published must not run, and asking again will not change it."""


def say(text: str) -> None:
    sys.stdout.write(f"passerelle: {text}\n")
    sys.stdout.flush()


def place(url: str) -> tuple[str, str, str]:
    """("datasets/" or "", "owner/name", "folder/" or "") as control.hub reads it, which is what published there."""
    found = re.fullmatch(r"hf://(datasets/)?([^/]+/[^/]+)/?(.*?)/?", url)
    if found is None:
        raise Unfit("PASSERELLE_HUB must be like hf://datasets/owner/name")
    return found[1] or "", found[2], found[3] + "/" if found[3] else ""


def fetch(env: Env, name: str, revision: str) -> tuple[bytes, str]:
    """(bytes, commit) of one file. Raises OSError and HTTPException for a Hub that does not answer."""
    kind, repo, folder = place(env["PASSERELLE_HUB"])
    endpoint = (env.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    request = urllib.request.Request(f"{endpoint}/{kind}{repo}/resolve/{revision}/{folder}{name}")
    request.add_header("User-Agent", "passerelle")
    if env.get("HF_TOKEN"):
        # Not sent again after a redirect: large files are on another host.
        request.add_unredirected_header("Authorization", "Bearer " + env["HF_TOKEN"])
    try:
        with urllib.request.urlopen(request, timeout=REQUEST_S) as answer:
            at = re.search("[0-9a-f]{40}", answer.headers.get("X-Repo-Commit") or answer.url)
            return answer.read(), at[0] if at else revision
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in (401, 403, 404):
            what = error.headers.get("X-Error-Message") or f"HTTP {error.code}"
            raise Unfit(f"{name}: {what} (is HF_TOKEN allowed to read {env['PASSERELLE_HUB']}?)") from error
        raise


def published(env: Env) -> Files:
    """The three files, of one commit."""
    config, commit = fetch(env, NAMES[0], "main")
    return config, fetch(env, NAMES[1], commit)[0], fetch(env, NAMES[2], commit)[0]


def kept(folder: Path) -> Files:
    config, signature, text = ((folder / name).read_bytes() for name in NAMES)
    return config, signature, text


def checked(env: Env, files: Files) -> tuple[int, bytes]:
    """(serial, code), or Unfit with the reason."""
    config, signature, text = files
    right = hmac.new(env["PASSERELLE_OPERATOR_TOKEN"].encode(), config, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(right.encode(), signature.strip()):
        raise Unfit("the signature of pod.toml is not one of this pod's operator token")
    try:
        spec = tomllib.loads(config.decode())
        wanted, serial = spec["code"]["sha256"], int(spec.get("serial", 0))
        code = base64.b64decode(text)
    except (ValueError, LookupError, TypeError) as error:
        raise Unfit("pod.toml has no [code] sha256 that can be read: publish it with passerelle") from error
    if hashlib.sha256(code).hexdigest() != wanted:
        raise Unfit("the code is not the one whose sha256 pod.toml names")
    return serial, code


def look(env: Env, folder: Path, attempt: int) -> bytes | None:
    """The code to run, or None to look again later."""
    try:
        before = checked(env, kept(folder))
    except (OSError, Unfit):
        before = None
    try:
        files = published(env)
        serial, code = checked(env, files)
        if before and serial < before[0]:
            raise Unfit(f"its serial {serial} is older than {before[0]}, which ran here")
        for name, data in zip(NAMES, files, strict=True):
            (folder / (name + ".part")).write_bytes(data)
        for name in NAMES:
            (folder / (name + ".part")).replace(folder / name)
        say(f"pod.toml serial {serial} and its code are good")
        return code
    except (Unfit, OSError, http.client.HTTPException) as error:
        gave_up = isinstance(error, Unfit) or attempt >= TRIES
        why = getattr(error, "reason", None) or error  # urllib's own words wrap the system's
        say(f"not what is published: {why}" + (" (what was kept runs)" if before and gave_up else ""))
        return before[1] if before and gave_up else None


def pause(attempt: int) -> float:
    """Seconds until the next look; a pod that waits costs money, a Hub that is asked too often answers nobody."""
    return min(60.0, 2.0 ** min(attempt, 6))


def main(
    env: Env = os.environ,
    sleep: Callable[[float], None] = time.sleep,
    become: Callable[[str, list[str]], object] = os.execv,
) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # PID 1 has no default for it
    state = Path(env.get("PASSERELLE_STATE") or "/workspace/passerelle")
    start_ssh(env, state)  # first: it is for the pod that gets no further
    missing = [name for name in ("PASSERELLE_HUB", "PASSERELLE_OPERATOR_TOKEN") if not env.get(name)]
    if missing:
        sys.exit("passerelle: the pod's environment lacks " + " and ".join(missing))
    folder = state / "start"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    attempt = 0
    while (code := look(env, folder, attempt := attempt + 1)) is None:
        sleep(pause(attempt))
    program = folder / "passerelle.pyz"
    program.write_bytes(code)
    words = ["run", "--hub", env["PASSERELLE_HUB"], "--state", str(state), "--host", "0.0.0.0"]
    become(sys.executable, [sys.executable, "-P", str(program), *words])


if __name__ == "__main__":
    main()
