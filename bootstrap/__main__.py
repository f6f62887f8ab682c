"""The command line: `run` is PID 1 of the pod, `ctl` speaks to a running one when the bridge cannot."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from bootstrap import ctlsocket
from bootstrap.runner import run
from bootstrap.startup import EXIT_REFUSED, EXIT_USAGE, CannotStart, Settings

EXIT_UNREACHABLE = 3
DEFAULT_STATE = Path("/var/lib/passerelle")
_EXAMPLES = """examples:
  passerelle-bootstrap run --config pod.toml --state /workspace/passerelle --host 0.0.0.0 --port 8080
  passerelle-bootstrap ctl --state /workspace/passerelle status
  passerelle-bootstrap ctl --state /workspace/passerelle restart bridge
  passerelle-bootstrap ctl --state /workspace/passerelle tail

run reads PASSERELLE_CLIENT_TOKEN and PASSERELLE_OPERATOR_TOKEN from the environment.
exit codes: 0 done, 2 refused, 3 no bootstrap answers, 64 usage or a bad pod.toml (docs/config.md)"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\n")


def _version() -> str:
    try:
        return importlib.metadata.version("passerelle")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="passerelle-bootstrap",
        description="Start and supervise the engine and the bridge of one pod.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=_version())
    verbs = parser.add_subparsers(dest="verb", required=True)
    runs = verbs.add_parser("run", help="start engine and bridge and keep them running")
    runs.add_argument("--config", type=Path, required=True, metavar="FILE", help="pod.toml")
    _where(runs)
    runs.add_argument("--host", default="127.0.0.1", help="address that the bridge listens on (default: %(default)s)")
    runs.add_argument("--port", type=int, default=8080, help="port that the bridge listens on (default: %(default)s)")
    runs.add_argument("--engine-port", type=int, default=0, metavar="N", help="loopback port (default: a free one)")
    runs.add_argument(
        "--vllm", action="append", metavar="ARG", help="the engine's program; repeat for each word (default: vllm)"
    )
    ctl = verbs.add_parser("ctl", help="ask a running bootstrap, or steer it")
    _where(ctl)
    asks = ctl.add_subparsers(dest="ask", required=True)
    asks.add_parser("status", help="print its status as JSON")
    restart = asks.add_parser("restart", help="restart one service; the bridge loses no stream")
    restart.add_argument("service", choices=["bridge", "engine"])
    asks.add_parser("stop-pod", help="stop everything, bootstrap too")
    asks.add_parser("tail", help="print the log and follow it")
    return parser


def _where(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state", type=Path, default=DEFAULT_STATE, metavar="DIR", help="folder for logs and socket (%(default)s)"
    )
    parser.add_argument("--socket", type=Path, metavar="PATH", help="control socket (default: DIR/bootstrap.sock)")


def _settings(args: argparse.Namespace, environ: dict[str, str]) -> Settings:
    tokens = [environ.get(name, "") for name in ("PASSERELLE_CLIENT_TOKEN", "PASSERELLE_OPERATOR_TOKEN")]
    if not all(tokens):
        message = "PASSERELLE_CLIENT_TOKEN and PASSERELLE_OPERATOR_TOKEN must be set: nobody may use a pod without one"
        raise CannotStart(message, EXIT_USAGE)
    return Settings(
        config=args.config,
        state=args.state,
        socket=args.socket or args.state / "bootstrap.sock",
        host=args.host,
        port=args.port,
        engine_port=args.engine_port,
        vllm=tuple(args.vllm or ("vllm",)),
        bridge=(sys.executable, "-P", "-m", "bridge"),
        client_token=tokens[0],
        operator_token=tokens[1],
        environ=environ,
    )


def _ctl(args: argparse.Namespace) -> int:
    path = args.socket or args.state / "bootstrap.sock"
    if args.ask == "tail":
        return _tail(path)
    request = {"cmd": args.ask, **({"service": args.service} if args.ask == "restart" else {})}
    response = ctlsocket.ask(path, request)
    if not response.get("ok"):
        _complain(str(response.get("error", "refused")))
        return EXIT_REFUSED
    _print(json.dumps(response.get("status", response), indent=2, ensure_ascii=False))
    return 0


def _tail(path: Path) -> int:
    """Follow the log until interrupted."""
    after: int | None = None
    while True:
        request: dict[str, Any] = {"cmd": "status"} if after is None else {"cmd": "status", "log_after": after}
        status = ctlsocket.ask(path, request)["status"]
        for line in status["log"]:
            at = time.strftime("%H:%M:%S", time.localtime(line["at"]))
            _print(f"{at} {line['source']:9} {line['level']:7} {line['text']}")
        if status["log_next"] == after or not status["log"]:
            time.sleep(0.5)
        after = status["log_next"]


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _complain(text: str) -> None:
    sys.stderr.write(f"passerelle-bootstrap: {text}\n")


def main(argv: list[str] | None = None) -> int:
    """The exit code; see the end of --help."""
    args = _parser().parse_args(argv)
    try:
        return run(_settings(args, dict(os.environ)), _version()) if args.verb == "run" else _ctl(args)
    except CannotStart as error:
        _complain(str(error))
        return error.exit_code
    except ctlsocket.SocketProblem as error:
        _complain(str(error))
        return EXIT_UNREACHABLE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
