"""`python -m bootstrap.hubworker JOB`: fetches the config, mirrors the log, has the provider stop the pod. An edge."""

# A child process, so that nothing out there can hold up the supervisor, which kills it when it is silent. It prints
# what it found, and an empty line as a sign of life. SIGUSR1 means "now", SIGTERM "a last word, then end". Its secrets
# are in its environment: HF_TOKEN, RUNPOD_API_KEY.

import base64
import json
import os
import random
import re
import signal
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from email.message import Message
from http.client import HTTPException
from pathlib import Path

from bootstrap import hub
from bootstrap.errors import Problem, failing_as
from bootstrap.hub import Refused
from bootstrap.report import VERSION

_LIMIT_S = 8.0  # of each wait in an exchange
_STOP_EVERY_S = 20.0
_SIGNALS = (signal.SIGUSR1, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Job:
    config: str | None  # URL of a store
    mirror: str | None
    mirrored_as: str
    every_s: float
    log: str
    folder: str  # for what is fetched, and for the pace
    stop: str | None = None  # id of the pod that the provider is to stop


def send(url: str, token: str | None, header: tuple[str, str], body: bytes | None = None) -> tuple[bytes, Message, str]:
    """Body, headers and final URL of a 200. Errors: Refused, for everything else."""
    # RunPod's edge refuses urllib's own name.
    request = urllib.request.Request(url, body, {"User-Agent": f"passerelle/{VERSION}", header[0]: header[1]})
    if token:
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=_LIMIT_S) as response:
            return response.read(), response.headers, response.url
    except urllib.error.HTTPError as error:
        with error:
            text = error.read(2000).decode(errors="replace")
        raise Refused(f"{request.host} answers {error.code}: {text[:200]}", error.code, dict(error.headers)) from error
    except (OSError, HTTPException, ValueError) as error:
        raise Refused(f"{request.host}: {getattr(error, 'reason', None) or error}") from error


def replace_file(path: Path, content: bytes) -> None:
    """Whole or not at all. Errors: Problem."""
    with failing_as(f"cannot write {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.part")
        part.write_bytes(content)
        part.replace(path)


class Hub:
    """A repository, over the Hub's HTTP API."""

    def __init__(self, store: hub.Store) -> None:
        self._store, self._token = store, os.environ.get("HF_TOKEN")
        self._endpoint = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")

    def fetch(self, name: str, etag: str, revision: str) -> hub.File | None:
        """None: it is still the file of this etag. Body, etag and commit are of one response."""
        where = hub.resolve_url(self._endpoint, self._store, revision, name)
        try:
            body, headers, url = send(where, self._token, ("If-None-Match", f'"{etag}"'))
        except Refused as refused:
            if refused.status == 304:
                return None
            raise
        found = headers.get("ETag", "").removeprefix("W/").strip('"')
        if found != hub.blob_sha1(body):
            raise Refused(f"{name} arrived damaged")
        sha = re.search("[0-9a-f]{40}", url)  # a public file's answer comes from a URL with the commit in it
        return hub.File(body, found, headers.get("X-Repo-Commit") or (sha[0] if sha else None))

    def put(self, name: str, content: bytes) -> None:
        body = hub.commit_body(self._store.file(name), content, f"log of {Path(name).stem}")
        url = hub.commit_url(self._endpoint, self._store)
        for delay_s in (1.0, 2.0, 3.0, 0.0):
            try:
                send(url, self._token, ("Content-Type", "application/x-ndjson"), body)
                return
            except Refused as refused:  # 412: somebody else committed at that moment
                if refused.status != 412 or not delay_s:
                    raise
            time.sleep(delay_s * random.uniform(0.5, 1.5))


class Folder:
    """The same files in a folder."""

    def __init__(self, store: hub.Store) -> None:
        self._root = Path(store.name)

    def fetch(self, name: str, etag: str, revision: str) -> hub.File | None:
        if not (self._root / name).exists():
            raise Refused(f"there is no {name} in {self._root}", 404)
        with failing_as(f"cannot read {self._root / name}"):
            body = (self._root / name).read_bytes()
        return hub.File(body, hub.blob_sha1(body), None)

    def put(self, name: str, content: bytes) -> None:
        replace_file(self._root / name, content)


def open_store(url: str) -> Hub | Folder:
    store = hub.parse(url)
    return Folder(store) if store.kind is None else Hub(store)


class Worker:
    def __init__(self, job: Job) -> None:
        self._job, self._etag, self._told, self._found = job, "", dict[str, str](), b""
        self._due, self._failures = dict[str, float](), Counter[str]()
        self._kept_pace = Path(job.folder, "pace.json")
        self.pace = hub.Pace(**json.loads(self._kept_pace.read_bytes())) if self._kept_pace.exists() else hub.Pace()

    def round(self, *, urgent: bool = False, last: bool = False) -> None:
        """All that is due. urgent: now, and said even if it is nothing new; last: only what must not be lost."""
        if urgent:
            self._told, self._due, self._etag = {}, {}, ""
        if self._job.config and not last:
            self._do("config", self._watch)
        if self._job.stop and not last:
            self._do("stop", self._stop)
        if self._job.mirror:
            self._do("mirror", lambda: self._mirror(urgent=urgent or last))
        say("")

    def _do(self, task: str, work: Callable[[], str]) -> None:
        if time.time() < self._due.get(task, 0.0):
            return
        try:
            said, self._failures[task] = work(), 0
        except Problem as problem:
            said = f"failed: {problem}"
            if isinstance(problem, Refused):
                self._due[task] = time.time() + problem.retry_s(self._failures[task])
                self._failures[task] += 1
        if said.startswith("new ") or (said and said != self._told.get(task)):
            self._told[task] = said
            say(f"{task} {said}")

    def _watch(self) -> str:
        store = open_store(self._job.config or "")
        file = store.fetch("pod.toml", self._etag, "main")
        if file is None:
            return "same"
        try:
            signed = store.fetch("pod.toml.sig", "", file.commit or "main")
        except Refused as refused:
            if refused.status != 404:
                raise
            signed = None
        signature = signed.body.decode(errors="replace") if signed else None
        body = base64.b64encode(file.body).decode()
        found = json.dumps({"body": body, "commit": file.commit, "signature": signature}).encode()
        self._etag, before, self._found = file.etag, self._found, found
        if found == before:
            return "same"
        replace_file(Path(self._job.folder, "incoming.json"), found)
        return f"new {file.commit or file.etag}"

    def _mirror(self, *, urgent: bool) -> str:
        with failing_as("cannot read the log"), open(self._job.log, "rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - hub.TAIL))
            tail = log.read()
        blob = hub.blob_sha1(tail)
        if not self.pace.allows(blob, time.time(), urgent=urgent):
            return ""
        try:
            open_store(self._job.mirror or "").put(f"etat/{self._job.mirrored_as}.log", tail)
            self.pace = self.pace.committed(blob, time.time(), self._job.every_s)
        except Refused as refused:
            self.pace = self.pace.barred(time.time() + refused.retry_s(0))
            raise
        finally:
            replace_file(self._kept_pace, json.dumps(asdict(self.pace)).encode())
        return ""

    def _stop(self) -> str:
        # POST /v2/pods/{id}/action, again and again: the machine's end is the only sure answer.
        base = (os.environ.get("RUNPOD_API_BASE_URL") or "https://api.runpod.io").rstrip("/")
        self._due["stop"] = time.time() + _STOP_EVERY_S
        json_body = ("Content-Type", "application/json"), b'{"action":"stop"}'
        send(f"{base}/v2/pods/{self._job.stop}/action", os.environ.get("RUNPOD_API_KEY"), *json_body)
        return "asked"


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(argv: list[str]) -> int:
    worker = Worker(Job(**json.loads(argv[0])))
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    urgent = False
    while True:
        worker.round(urgent=urgent)
        told = signal.sigtimedwait(_SIGNALS, hub.POLL_S * random.uniform(0.9, 1.1))
        if told and told.si_signo == signal.SIGTERM:
            worker.round(last=True)
            return 0
        urgent = told is not None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
