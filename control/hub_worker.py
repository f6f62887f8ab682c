"""The only file that imports huggingface_hub: a child process that does one thing at a time for control.hub_hf.

JSON lines: {"op": "read" | "publish" | "history" | "make", "kind", "repo", …} -> {"ok": true, …} or
{"ok": false, "error": KIND, "message", "remedy", "retry_s"}. It ends with its input, or is ended.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import httpx2
    from huggingface_hub import HfApi

REQUEST_WITHIN_S = 10.0
"""Of one HTTP request; the library itself has no limit."""
LONGEST_WAIT_S = 15
"""A wait that the Hub asks for and the library would sleep through; what is longer is said instead."""

TOKEN_HELP = "give the token by HF_TOKEN or `passerelle init`; a fine-grained one needs this repository, with write"
NO_TOKEN_HELP = "there is no token: give one by HF_TOKEN or `passerelle init`"

_WINDOW = re.compile(r"\br=0;t=(\d+)")
"""Of the `RateLimit` header, when nothing is left of the window: `"api";r=0;t=55`."""


class _Wait(Exception):
    """The Hub answered 429, or that it will be away for long."""

    def __init__(self, status: int, message: str, seconds: float | None) -> None:
        super().__init__(message)
        self.kind = "rate limited" if status == 429 else "unreachable"
        self.seconds = seconds


def _refuse_long_waits(response: httpx2.Response) -> None:
    """The library would sleep as long as it is told to, an hour for the commit quota."""
    retry, window = response.headers.get("retry-after", ""), _WINDOW.search(response.headers.get("ratelimit", ""))
    seconds = float(retry) if retry.isdigit() else float(window[1]) if window else None
    limited, away = response.status_code == 429, response.status_code >= 500
    if (limited and seconds is None) or ((limited or away) and (seconds or 0.0) > LONGEST_WAIT_S):
        response.read()
        raise _Wait(response.status_code, _said(response), seconds)


def _said(response: httpx2.Response) -> str:
    try:
        return str(response.json()["error"])
    except (ValueError, LookupError, TypeError):
        return f"HTTP {response.status_code}"


class Worker:
    """One token's calls."""

    def __init__(self, token: str | None) -> None:
        import httpx2
        import huggingface_hub

        def client() -> httpx2.Client:
            hooks = {"response": [_refuse_long_waits]}
            return httpx2.Client(follow_redirects=True, timeout=REQUEST_WITHIN_S, event_hooks=hooks)

        huggingface_hub.set_client_factory(client)
        self._token = token
        self._api: HfApi = huggingface_hub.HfApi(token=token or False)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request's answer; every error of the library ends here."""
        import httpx2
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError

        work = {"read": self._read, "publish": self._publish, "history": self._history, "make": self._make}
        try:
            return {"ok": True, **work[request["op"]](request)}
        except _Wait as wait:
            return _failure(wait.kind, str(wait), retry_s=wait.seconds)
        except HfHubHTTPError as error:
            return self._http_failure(error)
        except (HFValidationError, ValueError) as error:
            return _failure("refused", str(error))
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            return _failure("unreachable", str(error) or type(error).__name__)

    def _read(self, request: dict[str, Any]) -> dict[str, Any]:
        """The commit first, then every file as of it, so that all are of one moment."""
        from huggingface_hub.errors import RemoteEntryNotFoundError

        repo, kind = request["repo"], request["kind"]
        info = self._api.repo_info(repo, repo_type=kind, revision=request["revision"], timeout=REQUEST_WITHIN_S)
        commit, files = str(info.sha), {}
        for path in request["paths"]:
            try:
                files[path] = base64.b64encode(self._file(repo, kind, path, commit)).decode()
            except RemoteEntryNotFoundError:
                continue
        return {"commit": commit, "files": files}

    def _file(self, repo: str, kind: str, path: str, commit: str) -> bytes:
        from huggingface_hub import get_session, hf_hub_url, hf_raise_for_status

        url = hf_hub_url(repo, path, repo_type=kind, revision=commit)
        headers = {"authorization": f"Bearer {self._token}"} if self._token else {}
        response = get_session().get(url, headers=headers)
        hf_raise_for_status(response)
        return response.content

    def _publish(self, request: dict[str, Any]) -> dict[str, Any]:
        from huggingface_hub import CommitOperationAdd

        done = self._api.create_commit(
            request["repo"],
            [CommitOperationAdd(path, base64.b64decode(data)) for path, data in request["files"].items()],
            commit_message=request["title"],
            repo_type=request["kind"],
            parent_commit=request["parent"],
        )
        return {"commit": done.oid}

    def _history(self, request: dict[str, Any]) -> dict[str, Any]:
        begin = request["beginning"]
        rows = [
            {
                "commit": commit.commit_id,
                "title": commit.title.removeprefix(begin),
                "at": commit.created_at.timestamp(),
                "author": ", ".join(commit.authors),
            }
            for commit in self._api.list_repo_commits(request["repo"], repo_type=request["kind"])
            if commit.title.startswith(begin)
        ]
        return {"versions": rows[: request["limit"]]}

    def _make(self, request: dict[str, Any]) -> dict[str, Any]:
        self._api.create_repo(request["repo"], repo_type=request["kind"], private=True, exist_ok=True)
        return {}

    def _http_failure(self, error: Any) -> dict[str, Any]:
        status = error.response.status_code
        said = error.server_message or f"HTTP {status}"
        code = error.response.headers.get("x-error-code")
        if status == 412:
            return _failure("conflict", said)
        if code == "RevisionNotFound":
            return _failure("no version", said)
        if status in (401, 404):
            return _failure("no store", said, self._why_not_seen())
        if 400 <= status < 500 and status not in (408, 429):
            return _failure("refused", f"HTTP {status}: {said}", TOKEN_HELP if status == 403 else "")
        return _failure("rate limited" if status == 429 else "unreachable", said)

    def _why_not_seen(self) -> str:
        """The Hub answers alike to a wrong token and to a missing repository; whoami tells them apart."""
        from huggingface_hub.errors import HfHubHTTPError

        if not self._token:
            return NO_TOKEN_HELP
        try:
            name = self._api.whoami()["name"]
        except HfHubHTTPError:
            return "the Hub does not know this token (expired or mistyped): " + TOKEN_HELP
        return f'the token is good (of "{name}"): make the repository with `passerelle init`, or mend its name'


def _failure(kind: str, message: str, remedy: str = "", retry_s: float | None = None) -> dict[str, Any]:
    first = message.strip().splitlines()[0] if message.strip() else kind
    return {"ok": False, "error": kind, "message": first, "remedy": remedy, "retry_s": retry_s}


def serve(requests: TextIO, answers: TextIO) -> None:
    """Answer line by line until the input ends."""
    worker: Worker | None = None
    for line in requests:
        try:
            worker = worker or Worker(os.environ.get("HF_TOKEN") or None)
            said = worker.answer(json.loads(line))
        except ImportError as error:
            said = _failure(
                "refused", f"huggingface_hub is not installed here ({error})", "pip install huggingface_hub"
            )
        answers.write(json.dumps(said) + "\n")
        answers.flush()


def main() -> None:
    """stdout belongs to the answers; whatever the library prints goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(sys.stdin, answers)


if __name__ == "__main__":
    main()
