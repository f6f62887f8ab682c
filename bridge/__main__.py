"""`passerelle-bridge`, `python -P -m bridge`: options and environment in, a serving bridge out."""

import argparse
import logging
import os
import sys
from typing import Any, NoReturn

from bridge.config import ConfigError, load
from bridge.tables import TABLES, USAGE

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


# Options win over variables. Exits on --help; raises ConfigError.
def _environment() -> dict[str, Any]:
    parser = _Parser("passerelle-bridge", description=USAGE, formatter_class=argparse.RawTextHelpFormatter)
    for option, words in TABLES["options"].items():
        parser.add_argument(option, **words)
    given = vars(parser.parse_args())
    host, _, given["PASSERELLE_PORT"] = given.pop("PASSERELLE_HOST").rpartition(":")
    given["PASSERELLE_HOST"] = host.strip("[]")
    return {**os.environ, **{name: value for name, value in given.items() if value}}


def main() -> int:
    logging.basicConfig(level=logging.WARNING)
    logging.root.handlers[0].setFormatter(_OneLine())
    log.setLevel(logging.INFO)
    try:
        config = load(_environment())
        from bridge.server import run  # half a second of libraries, which a bad environment need not wait for

        run(config)
        return 0
    except ConfigError as error:
        problem, code = str(error), os.EX_USAGE
    except OSError as error:
        problem, code = f"no socket to serve on: {error}", 1
    log.error("%s", problem)
    return code


if __name__ == "__main__":
    sys.exit(main())
