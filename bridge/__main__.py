"""`python -P -m bridge`: environment in, a serving bridge out. Exit codes: 0 stopped, 1 no socket, 64 environment."""

import logging
import os
import sys

from bridge.config import ConfigError, load

EX_USAGE = 64
EX_NO_SOCKET = 1
log = logging.getLogger("bridge")


class _OneLine(logging.Formatter):
    """`level message`, whatever the message holds: the supervisor reads lines."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return f"{record.levelname.lower()} {' | '.join(filter(None, map(str.strip, text.splitlines())))}"


def main() -> int:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine("%(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    log.setLevel(logging.INFO)
    try:
        config = load(os.environ)
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
