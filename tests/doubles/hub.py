"""A double of the Hugging Face Hub on loopback, for the real huggingface_hub, curl and urllib alike.

In a test: `with HubDouble() as hub: …` (or the fixture `hub` of tests/doubles/fixtures.py), then HF_ENDPOINT=hub.url.
As a process: `python -m tests.doubles.hub --repo datasets/alice/pods --file pod.toml=PATH` prints its URL on one line,
and takes faults by `POST /_double/fault {"kind": …, "where": …, "times": …, "status": …, "seconds": …}`.
Tokens: hf_writer may write, hf_reader may read, both of the user alice.
"""

from __future__ import annotations

import argparse
import socket
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.doubles.hub_faults import Faults, answer_of
from tests.doubles.hub_repo import Change
from tests.doubles.hub_routes import answer
from tests.doubles.hub_state import Holdings
from tests.doubles.hub_wire import Answer, Request, as_json


class HubDouble:
    """The server in a thread of its own. `requests` is what it was asked, `holdings` what it holds."""

    def __init__(self, port: int = 0) -> None:
        self.holdings, self.faults = Holdings(), Faults()
        self.requests: list[tuple[str, str, int]] = []
        """(method, path with query, status) in the order of the answers; 0 where none was given."""
        self.seen: list[Request] = []
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", port), _handler_of(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="hub double")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.end_connections()
        self._server.server_close()
        self._thread.join()

    def seed(self, repo: str, files: Mapping[str, bytes | None], private: bool = True, title: str = "seed") -> str:
        """Commit `files` to `datasets/owner/name` (or `owner/name`, a model), making it if need be; the commit's id."""
        with self._lock:
            kind, name = _place(repo)
            made = self.holdings.add_repo(kind, name, private)
            return self.holdings.commit(made, Change(dict(files), title=title), name.split("/")[0]).oid

    def files(self, repo: str) -> dict[str, bytes]:
        """What the head of a repository holds, .gitattributes left out."""
        with self._lock:
            files = self.holdings.repos[_place(repo)].head.files
            return {path: data for path, data in files.items() if path != ".gitattributes"}

    def titles(self, repo: str) -> list[str]:
        """The titles of its commits, newest first."""
        with self._lock:
            return [commit.title for commit in reversed(self.holdings.repos[_place(repo)].commits)]

    def head(self, repo: str) -> str:
        with self._lock:
            return self.holdings.repos[_place(repo)].head.oid

    def respond(self, request: Request) -> tuple[Answer | None, bool]:
        """(answer, whether only half of its body is sent). No answer: the connection ends without one."""
        with self._lock:
            self.seen.append(request)
            if request.path.startswith("/_double/"):
                return self._steer(request), False
            fault = self.faults.take(request.method, request.target)
            if fault is None or fault.kind == "truncate":
                return answer(self.holdings, request), fault is not None
            if fault.kind == "committed_but":
                answer(self.holdings, request)
            if fault.kind not in ("hang", "reset"):
                return answer_of(fault), False
        if fault.kind == "hang":
            self.closing.wait()
        return None, False

    def note(self, request: Request, status: int) -> None:
        with self._lock:
            self.requests.append((request.method, request.target, status))

    def _steer(self, request: Request) -> Answer:
        if request.method == "POST" and request.path == "/_double/fault":
            self.faults.add(**request.json())
        return as_json({"requests": self.requests})


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._open: set[socket.socket] = set()
        super().__init__(address, handler)

    def process_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        if isinstance(request, socket.socket):
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        super().shutdown_request(request)
        if isinstance(request, socket.socket):
            self._open.discard(request)

    def end_connections(self) -> None:
        """Wake the threads that wait on an idle or hung connection."""
        for connection in tuple(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def handle_error(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # a client that left is nobody's fault
            super().handle_error(request, client_address)


def _handler_of(hub: HubDouble) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1  # one write per answer

        def _serve(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.command, self.path, headers, self.rfile.read(length))
            given, halved = hub.respond(request)
            hub.note(request, given.status if given else 0)
            if given is None:
                self.close_connection = True
                return
            self.send_response(given.status)
            for name, value in given.headers.items():
                self.send_header(name, value)
            if given.status != 304:
                self.send_header("Content-Length", str(len(given.body)))
            self.end_headers()
            if self.command != "HEAD" and given.status != 304:
                self.wfile.write(given.body[: len(given.body) // 2] if halved else given.body)
            self.close_connection = self.close_connection or halved

        def log_message(self, format: str, *args: object) -> None:
            return

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815

    return Handler


def _place(repo: str) -> tuple[str, str]:
    kind, _, name = repo.partition("/")
    return (kind.removesuffix("s"), name) if kind in ("datasets", "spaces", "models") else ("model", repo)


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(prog="python -m tests.doubles.hub", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--repo", default="datasets/alice/pods", help="made at the start, private")
    parser.add_argument("--file", action="append", default=[], metavar="NAME=PATH", help="put into it at the start")
    asked = parser.parse_args()
    files = {name: Path(path).read_bytes() for name, _, path in (item.partition("=") for item in asked.file)}
    with HubDouble(asked.port) as hub:
        hub.seed(asked.repo, files)
        sys.stdout.write(hub.url + "\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main()
