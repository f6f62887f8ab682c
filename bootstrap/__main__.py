"""The command line: `run` is PID 1 of the pod, `ctl` speaks to a running one when the bridge cannot."""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from bootstrap import ctlsocket
from bootstrap.errors import Problem, Usage
from bootstrap.report import VERSION
from bootstrap.runner import Settings, run

_NOTES = """run reads PASSERELLE_CLIENT_TOKEN and PASSERELLE_OPERATOR_TOKEN from the environment.
example: passerelle-bootstrap run --config pod.toml --state /workspace/passerelle --host 0.0.0.0
exit codes: 0 done, 2 refused, 3 no bootstrap answers, 64 usage or a bad pod.toml (docs/config.md)"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(Usage.exit_code, f"{self.prog}: {message}\n")


def _parser() -> argparse.ArgumentParser:
    where = _Parser(add_help=False)
    where.add_argument("--state", type=Path, default=Path("/var/lib/passerelle"), metavar="DIR", help="logs and socket")
    where.add_argument("--socket", type=Path, metavar="PATH", help="control socket (default: DIR/bootstrap.sock)")
    parser = _Parser(
        prog="passerelle-bootstrap",
        description="Start and supervise the engine and the bridge of one pod.",
        epilog=_NOTES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=VERSION)
    verbs = parser.add_subparsers(dest="verb", required=True)
    runs = verbs.add_parser("run", parents=[where], help="start engine and bridge and keep them running")
    runs.add_argument("--config", type=Path, required=True, metavar="FILE", help="pod.toml")
    runs.add_argument("--host", default="127.0.0.1", help="address that the bridge listens on (default: %(default)s)")
    runs.add_argument("--port", type=int, default=8080, help="port that the bridge listens on (default: %(default)s)")
    runs.add_argument("--engine-port", type=int, default=0, metavar="N", help="loopback port (default: a free one)")
    vllm = "the engine's program; repeat for each word (default: vllm)"
    runs.add_argument("--vllm", action="append", default=[], metavar="ARG", help=vllm)
    ctl = verbs.add_parser("ctl", parents=[where], help="ask a running bootstrap, or steer it")
    asks = ctl.add_subparsers(dest="cmd", required=True)
    asks.add_parser("status", help="print its status as JSON")
    restart = asks.add_parser("restart", help="restart one service; the bridge loses no stream")
    restart.add_argument("service", choices=["bridge", "engine"])
    asks.add_parser("stop-pod", help="stop everything, bootstrap too")
    asks.add_parser("tail", help="print the log and follow it")
    return parser


def _tail(path: Path) -> NoReturn:
    after: dict[str, Any] = {}
    while True:
        status = ctlsocket.ask(path, {"cmd": "status", **after})["status"]
        for line in status["log"]:
            at = time.strftime("%H:%M:%S", time.localtime(line["at"]))
            _print(f"{at} {line['source']:9} {line['level']:7} {line['text']}")
        time.sleep(0.0 if status["log"] else 0.5)
        after = {"log_after": status["log_next"]}


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(argv: list[str] | None = None) -> int:
    """The exit code; see the end of --help."""
    given = vars(_parser().parse_args(argv))
    given["socket"] = given["socket"] or given["state"] / "bootstrap.sock"
    try:
        match given:
            case {"verb": "run", **asked}:
                return run(Settings(environ=dict(os.environ), **asked))
            case {"cmd": "tail", "socket": path}:
                _tail(path)
            case {"verb": _, "state": _, "socket": path, **request}:
                response = ctlsocket.ask(path, request)
                _print(json.dumps(response.get("status", response), indent=2, ensure_ascii=False))
    except Problem as problem:
        sys.stderr.write(f"passerelle-bootstrap: {problem}\n")
        return problem.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or else the last flush complains
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
