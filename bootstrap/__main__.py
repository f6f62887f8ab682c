"""The command line: `run` is PID 1 of the pod, `ctl` speaks to a running one when the bridge cannot."""

import argparse
import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from bootstrap import ctlsocket
from bootstrap.errors import Problem, Usage
from bootstrap.launches import Settings
from bootstrap.report import VERSION
from bootstrap.runner import run

_NOTES = """run reads PASSERELLE_CLIENT_TOKEN, PASSERELLE_OPERATOR_TOKEN and, for a Hub, HF_TOKEN from the environment.
examples: passerelle-bootstrap run --hub hf://datasets/OWNER/NAME --host 0.0.0.0
          passerelle-bootstrap ctl restart engine
exit codes: 0 done, 2 refused, 3 no bootstrap answers, 64 usage or a bad pod.toml (docs/config.md)"""
_ORDERS = ("status", "tail", "restart", "swap", "apply", "keep", "desktop", "stop-pod")
_ARGUMENTS = {"restart": "service", "swap": "model"}
_STATE = Path("/var/lib/passerelle")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(Usage.exit_code, f"{self.prog}: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser("passerelle-bootstrap", epilog=_NOTES, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.description = "Start and supervise the engine and the bridge of one pod."
    parser.add_argument("--version", action="version", version=VERSION)
    verbs = parser.add_subparsers(dest="verb", required=True)
    runs = verbs.add_parser("run", help="start engine and bridge and keep them running")
    source = runs.add_mutually_exclusive_group(required=True)
    source.add_argument("--config", type=Path, metavar="FILE", help="pod.toml")
    source.add_argument("--hub", metavar="URL", help="where a signed pod.toml is published: hf://… or dir:///…")
    runs.add_argument("--state", type=Path, default=_STATE, help="folder of logs, last config (default: %(default)s)")
    runs.add_argument("--host", default="127.0.0.1", help="address that the bridge listens on (default: %(default)s)")
    runs.add_argument("--port", type=int, default=8080, help="port that the bridge listens on (default: %(default)s)")
    runs.add_argument("--engine-port", type=int, default=0, metavar="N", help="loopback port (default: a free one)")
    runs.add_argument(
        "--vllm", action="append", metavar="WORD", help="the engine's program, word by word (default: vllm)"
    )
    ctl = verbs.add_parser("ctl", help="ask a running bootstrap, or steer it")
    ctl.add_argument("cmd", choices=_ORDERS, help="what to do")
    ctl.add_argument("what", nargs="?", help="of restart: bridge or engine; of swap: the model's key")
    for each in (runs, ctl):  # not in the state folder, which may be on a network volume, where no socket can be
        each.add_argument("--socket", type=Path, default=_STATE / "bootstrap.sock", help="(default: %(default)s)")
    return parser


def _run(given: dict[str, Any]) -> int:
    archive = getattr(globals()["__loader__"], "archive", None)  # zipimport's, in a zipapp
    code = hashlib.sha256(Path(archive).read_bytes()).hexdigest() if archive else None
    given["vllm"] = tuple(given["vllm"] or ["vllm"])
    return run(Settings(environ=dict(os.environ), archive=archive, code=code, **given))


def _ctl(socket: Path, cmd: str, what: str | None) -> None:
    name = _ARGUMENTS.get(cmd)
    if bool(name) != bool(what):
        raise Usage(f"ctl {cmd} {f'needs a {name}' if name else 'takes no argument'}")
    if cmd == "tail":
        _tail(socket)
    response = ctlsocket.ask(socket, {"cmd": cmd, **({name: what} if name else {})})
    _print(json.dumps(response.get("status", response), indent=2, ensure_ascii=False))


def _tail(socket: Path) -> NoReturn:
    after = None
    while True:
        told = ctlsocket.ask(socket, {"cmd": "tail", "after": after})
        for line in told["log"]:
            at = time.strftime("%H:%M:%S", time.localtime(line["at"]))
            _print(f"{at} {line['source']:9} {line['level']:7} {line['text']}")
        time.sleep(0.0 if told["log"] else 0.5)
        after = told["log_next"]


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(argv: list[str] | None = None) -> int:
    """The exit code; see the end of --help."""
    given = vars(_parser().parse_args(argv))
    try:
        if given.pop("verb") == "run":
            return _run(given)
        _ctl(**given)
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
