"""What stops bootstrap or its ctl: one line for the operator, and the exit code that goes with it."""

import contextlib
from collections.abc import Iterator


class Problem(Exception):
    """Refused: something outside is in the way."""

    exit_code = 2

    def __init__(self, text: str, wait_s: float | None = None) -> None:
        super().__init__(text)
        self.wait_s = wait_s  # where it would not be refused later


class Unreachable(Problem):
    exit_code = 3


class Usage(Problem):
    exit_code = 64  # what was asked for can never work; a bad pod.toml is one


@contextlib.contextmanager
def failing_as(what: str, kind: type[Problem] = Problem) -> Iterator[None]:
    """The system's own errors inside the block become a Problem: "cannot read x: No such file or directory"."""
    try:
        yield
    except (OSError, UnicodeError) as error:
        raise kind(f"{what}: {getattr(error, 'strerror', None) or error}") from error
