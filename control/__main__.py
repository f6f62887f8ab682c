"""`python -m control`: every verb, without a screen."""

from __future__ import annotations

import sys

from control.cli import run


def main() -> None:
    """Exit with the verb's code."""
    sys.exit(run(sys.argv[1:], None))


if __name__ == "__main__":
    main()
