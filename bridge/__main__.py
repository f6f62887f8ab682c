"""`passerelle-bridge`, `python -P -m bridge`: options and environment in, a serving bridge out."""

import argparse
import json
import logging
import os
import sys
from importlib.resources import files
from typing import NoReturn

from bridge.config import ConfigError, load

EX_NO_SOCKET, EX_USAGE = 1, 64
log = logging.getLogger("bridge")


# `level message`, whatever the message holds: the supervisor reads lines, and cuts long ones. So a traceback is told
# from its end, where the cause is.
class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        first, *rest = (line.strip(" |+-") for line in super().format(record).splitlines() or [""])
        return f"{record.levelname.lower()} {' | '.join(filter(None, [first, *reversed(rest)]))}"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; see --help")


# An option is a variable by another name, and wins over it. Exits on --help; raises ConfigError.
def _environment() -> dict[str, str]:
    usage = files("bridge").joinpath("usage.txt").read_text("utf-8")
    parser = _Parser("passerelle-bridge", description=usage, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--listen", metavar="HOST:PORT", default="", help="default 127.0.0.1:8080")
    parser.add_argument("--upstream", metavar="URL", dest="ENGINE_URL", help="of the engine")
    parser.add_argument("--model", metavar="NAME", dest="MODEL_NAMES", action="append", help="the engine's own first")
    parser.add_argument("--insecure-no-auth", dest="INSECURE_NO_AUTH", action="store_const", const="true")
    given = vars(parser.parse_args())
    host, _, given["PORT"] = given.pop("listen").rpartition(":")
    given |= {"HOST": host.strip("[]"), "MODEL_NAMES": given["MODEL_NAMES"] and json.dumps(given["MODEL_NAMES"])}
    return {**os.environ, **{f"PASSERELLE_{name}": value for name, value in given.items() if value}}


def main() -> int:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine("%(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    log.setLevel(logging.INFO)
    try:
        config = load(_environment())
        from bridge.server import run  # half a second of libraries, which a bad environment need not wait for

        run(config)
        return 0
    except ConfigError as error:
        problem, code = str(error), EX_USAGE
    except OSError as error:
        problem, code = f"no socket to serve on: {error}", EX_NO_SOCKET
    log.error("%s", problem)
    return code


if __name__ == "__main__":
    sys.exit(main())
