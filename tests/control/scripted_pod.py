"""A pod for the command line's tests: its bridge and its supervisor's socket as threads that answer from a script."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer
from typing import Any

import msgspec

from control.local.store import LocalPod, Store
from control.models import PodId, Tokens
from tests.control.observe.reports import seen, status

POD = PodId("local-0001")
CLIENT, OPERATOR = "pas-client-planted0secret", "pas-operator-planted0secret"

MESSAGE = {"type": "message", "role": "assistant", "content": [], "stop_reason": "max_tokens"}


def report(**changes: object) -> dict[str, Any]:
    value: dict[str, Any] = msgspec.to_builtins(seen().report)
    value["bootstrap"] = msgspec.to_builtins(status())
    return value | changes


def log_line(seq: int, text: str, at: float = 1_795_973_364.0) -> dict[str, object]:
    return {"seq": seq, "at": at + seq, "source": "engine", "level": "info", "text": text}


@dataclass(slots=True)
class Script:
    """What the pod answers, by "METHOD path" for the bridge and by command for the socket; and what it was asked."""

    bridge: dict[str, tuple[int, object]] = field(default_factory=dict)
    socket: dict[str, object] = field(default_factory=dict)
    asked: list[tuple[str, str, Any]] = field(default_factory=list)
    """(way, what, body)."""
    tokens: list[str] = field(default_factory=list)
    port: int = 0


@contextlib.contextmanager
def scripted_pod(home: Path, *, bridge: bool = True) -> Iterator[Script]:
    """The pod POD under HOME, as an embedded one whose supervisor is the script's. `bridge=False`: nobody listens."""
    script = Script()
    script.bridge["GET /pod/report"] = 200, report()
    script.bridge["POST /v1/messages"] = 200, MESSAGE
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(script))
    script.port = server.server_address[1]
    store = Store(home)
    pod = LocalPod(POD, 1_000.0, "simulated", (), script.port, 0.74, started_at=None, ended_at=1_000.0)
    store.save(pod)
    store.save_tokens(POD, Tokens(CLIENT, OPERATOR))
    path = store.socket(POD)
    path.parent.mkdir(parents=True, exist_ok=True)
    socket = ThreadingUnixStreamServer(str(path), _socket_handler(script))
    servers: list[ThreadingHTTPServer | ThreadingUnixStreamServer] = [socket]
    if bridge:
        servers.append(server)
    else:
        server.server_close()
    threads = [threading.Thread(target=each.serve_forever, args=(0.01,)) for each in servers]
    for thread in threads:
        thread.start()
    try:
        yield script
    finally:
        for each in servers:
            each.shutdown()
            each.server_close()
        for thread in threads:
            thread.join()
        path.unlink(missing_ok=True)


def _handler(script: Script) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["content-length"])) or b"null"))

        def _answer(self, body: object) -> None:
            what = f"{self.command} {self.path.partition('?')[0]}"
            script.asked.append(("bridge", f"{self.command} {self.path}", body))
            script.tokens.append(self.headers["authorization"] or "")
            status, answer = script.bridge.get(what, (404, {"error": {"message": "there is nothing here"}}))
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *args: object) -> None:
            return

    return Handler


def _socket_handler(script: Script) -> type[StreamRequestHandler]:
    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            for line in self.rfile:
                request = json.loads(line)
                script.asked.append(("socket", request["cmd"], request))
                answer = script.socket.get(request["cmd"], {"ok": False, "error": f"no script for {request['cmd']}"})
                self.wfile.write(json.dumps(answer).encode() + b"\n")

    return Handler
