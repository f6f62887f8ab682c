"""A scripted engine: `python fake_vllm.py serve … --port N …` answers /health, ignores every other flag, and misbehaves
as FAKE_VLLM (of [serve] env) says: die, deaf, leave (a grandchild in a session of its own, which outlives it), leak.
"""

from __future__ import annotations

import http.server
import os
import signal
import subprocess
import sys

PREFIX = f"(APIServer pid={os.getpid()}) INFO 11-29 12:54:32 [api_server.py:1] "


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


def say(text: str) -> None:
    sys.stdout.write(PREFIX + text + "\n")
    sys.stdout.flush()


def main() -> None:
    tricks = os.environ.get("FAKE_VLLM", "").split(",")
    say("environment: " + " ".join(sorted(name for name in os.environ if name.startswith("PASSERELLE"))))
    if "die" in tricks:
        sys.exit("ValueError: this model cannot be served")
    if "leak" in tricks:
        say("non-default args: {'hf_token': 'plain-secret-0123'}")
        say("Authorization: Bearer " + os.environ["LEAKED"])
        say("client token is " + os.environ["LEAKED"] + " and hf_abcdefghijklmnop")
    if "leave" in tricks:
        sleeper = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        left = subprocess.Popen([sys.executable, "-c", sleeper], start_new_session=True, stdout=subprocess.DEVNULL)
        say(f"left {left.pid}")
    if "deaf" in tricks:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    port = int(sys.argv[sys.argv.index("--port") + 1])
    say(f"serving on {port}")
    http.server.ThreadingHTTPServer(("127.0.0.1", port), Answer).serve_forever()


if __name__ == "__main__":
    main()
