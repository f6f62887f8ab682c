"""The `passerelle` command: every verb of control, and the screen for those that have one."""

from __future__ import annotations

import sys
from typing import Any


def main() -> None:
    """Exit with the verb's code. The screen is imported only by the verbs that open it."""
    try:
        from control.cli import run
    except ModuleNotFoundError as error:
        sys.stderr.write(f"passerelle: {error.name} is missing\n  pip install 'passerelle[operator]'\n")
        sys.exit(2)
    sys.exit(run(sys.argv[1:], open_screen))


def open_screen(session: Any, theme: str | None) -> Any:
    """Run the screen until the operator leaves it."""
    from console.app import run

    return run(session, theme=theme)


if __name__ == "__main__":
    main()
