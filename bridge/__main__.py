"""`python -P -m bridge`: environment and options in, a serving bridge out. Exits 0 stopped, 1 no socket, 64 usage."""

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence

from bridge.config import ConfigError, load

EX_USAGE = 64
EX_NO_SOCKET = 1
log = logging.getLogger("bridge")
EXAMPLES = """\
examples:
  export PASSERELLE_CLIENT_TOKEN=$(openssl rand -hex 16) PASSERELLE_OPERATOR_TOKEN=$(openssl rand -hex 16)
  passerelle-bridge --listen 0.0.0.0:8080 --upstream http://127.0.0.1:8000
  passerelle-bridge --listen 127.0.0.1:8080 --upstream http://gpu:8000 --model qwen3-coder --insecure-no-auth

then, for Claude Code:
  export ANTHROPIC_BASE_URL=http://HOST:8080 ANTHROPIC_AUTH_TOKEN=$PASSERELLE_CLIENT_TOKEN
"""


class _OneLine(logging.Formatter):
    """`level message`, whatever the message holds: the supervisor reads lines."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return f"{record.levelname.lower()} {' | '.join(filter(None, map(str.strip, text.splitlines())))}"


# Options are variables by another name, which win over those that are set.
def _environment(argv: Sequence[str]) -> dict[str, str]:
    parser = argparse.ArgumentParser(
        "passerelle-bridge",
        description="Anthropic Messages in front of any OpenAI-compatible engine. Tokens come from the environment;"
        " so does every other setting (docs/bridge.md).",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default="",
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help="where clients find it; 127.0.0.1:8080 unless given")
    parser.add_argument("--upstream", metavar="URL", help="the engine's address, without /v1")
    parser.add_argument(
        "--model", metavar="NAME", action="append", help="what clients may call the model; the engine's own name first"
    )
    parser.add_argument("--insecure-no-auth", action="store_const", const="true", help="no tokens; on loopback only")
    given = parser.parse_args(argv)
    host, _, port = given.listen.rpartition(":")
    options = {
        "HOST": host.strip("[]"),
        "PORT": port,
        "ENGINE_URL": given.upstream,
        "MODEL_NAMES": given.model and json.dumps(given.model),
        "INSECURE_NO_AUTH": given.insecure_no_auth,
    }
    return {**os.environ, **{f"PASSERELLE_{name}": value for name, value in options.items() if value}}


def main(argv: Sequence[str] | None = None) -> int:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine("%(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    log.setLevel(logging.INFO)
    try:
        config = load(_environment(sys.argv[1:] if argv is None else argv))
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
