"""`python -m tests.bootstrap.scripted_pod STATE CONFIG`: bootstrap with the scripted pair, on a free port."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bootstrap.runner import Settings, run

HERE = Path(__file__).parent


def main(state: Path, config: Path) -> int:
    return run(
        Settings(
            config=config,
            state=state,
            socket=state / "b.sock",
            host="127.0.0.1",
            port=0,
            engine_port=0,
            vllm=(sys.executable, str(HERE / "fake_vllm.py")),
            bridge=(sys.executable, str(HERE / "scripted_bridge.py")),
            environ={
                **os.environ,
                "PASSERELLE_CLIENT_TOKEN": "client-token-0123",
                "PASSERELLE_OPERATOR_TOKEN": "operator-token-4567",
            },
        )
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
