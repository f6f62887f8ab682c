"""`python -m tests.bootstrap.scripted_pod STATE SOURCE`: bootstrap with the scripted pair, on a free port.

SOURCE is the URL of a store or the path of a pod.toml.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bootstrap.launches import Settings
from bootstrap.runner import run

HERE = Path(__file__).parent


def main(state: Path, source: str) -> int:
    return run(
        Settings(
            config=None if "://" in source else Path(source),
            hub=source if "://" in source else None,
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
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
