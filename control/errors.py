"""Errors of the control plane, by what the caller should do next.

PasserelleError
 ├─ UsageError        the request makes no sense; change it            (exit 64)
 ├─ Refused           understood and not done; the text says why       (exit 2)
 │   ├─ NoSuchPod
 │   ├─ PortInUse
 │   └─ Unauthorized  the pod does not take this token, or its provider this key
 └─ Unreachable       no answer; try again later                       (exit 3)
"""

from __future__ import annotations


class PasserelleError(Exception):
    """Base: `message` says what and where, `remedy` what to do next."""

    exit_code = 2

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class UsageError(PasserelleError):
    """The request makes no sense as it stands."""

    exit_code = 64


class Refused(PasserelleError):
    """Understood and not done."""


class NoSuchPod(Refused):
    """There is no pod of that id, or none at all."""


class PortInUse(Refused):
    """Something else listens on the port that was asked for."""


class Unauthorized(Refused):
    """The pod answered 401 or 403 to our token, or its provider to our key."""


class Unreachable(PasserelleError):
    """No answer, or one that is not a pod's: refused connection, timeout, bad gateway, not JSON."""

    exit_code = 3
