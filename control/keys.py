"""Secrets: from the environment, the system's keyring, or a file that only its owner can read. Never from argv.

The only file that imports `keyring`. A keyring that is locked may ask its user on a screen that nobody sees, so each
call has a deadline; whatever the keyring cannot do is done in HOME/secrets.json (0600), and `where` says so.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from control.errors import Refused
from control.models import PodId, Tokens
from control.store import home, write_whole

RUNPOD = "RUNPOD_API_KEY"
HUGGING_FACE = "HF_TOKEN"

SERVICE = "passerelle"
KEYRING_WITHIN_S = 5.0

Where = Literal["environment", "keyring", "file"]


class Ring(Protocol):
    """What we need of a `keyring` backend."""

    def get_password(self, service: str, username: str) -> str | None: ...
    def set_password(self, service: str, username: str, password: str) -> None: ...
    def delete_password(self, service: str, username: str) -> None: ...


class RingFailed(Exception):
    """No keyring, a locked one, or none of its answers within the deadline."""


class Keys:
    """One operator's secrets by name. `repr` shows none."""

    def __init__(self, root: Path | None = None, ring: Ring | None = None, environ: Mapping[str, str] = os.environ):
        self._file = (root or home()) / "secrets.json"
        self._environ = environ
        self._given = ring

    def get(self, name: str) -> str | None:
        """The secret, or None. An environment variable of that name wins."""
        return self._find(name)[0]

    def where(self, name: str) -> Where | None:
        """Where `get` finds it; None when nowhere."""
        return self._find(name)[1]

    def _find(self, name: str) -> tuple[str | None, Where | None]:
        if value := self._environ.get(name):
            return value, "environment"
        if value := self._load().get(name):
            return value, "file"
        try:
            value = self._ask(lambda ring: ring.get_password(SERVICE, name))
        except RingFailed:
            return None, None
        return (value, "keyring") if value else (None, None)

    def set(self, name: str, value: str) -> Where:
        """Keep a secret, in the keyring if there is one. Raises Refused when it can be written nowhere."""
        try:
            self._ask(lambda ring: ring.set_password(SERVICE, name, value))
        except RingFailed:
            self._write(self._load() | {name: value})
            return "file"
        self._forget_in_file(name)
        return "keyring"

    def delete(self, name: str) -> None:
        """Forget a secret wherever it is. Idempotent."""
        self._forget_in_file(name)
        try:
            self._ask(lambda ring: ring.delete_password(SERVICE, name))
        except RingFailed:
            return

    def tokens(self, pod_id: PodId) -> Tokens | None:
        """A rented pod's two tokens; None when we do not have them."""
        kept = self.get(_of(pod_id))
        if kept is None:
            return None
        try:
            return msgspec.json.decode(kept, type=Tokens)
        except msgspec.DecodeError as error:
            raise Refused(
                f"the kept tokens of pod {pod_id} cannot be read", f"passerelle pod adopt {pod_id}"
            ) from error

    def set_tokens(self, pod_id: PodId, tokens: Tokens) -> Where:
        return self.set(_of(pod_id), msgspec.json.encode(tokens).decode())

    def delete_tokens(self, pod_id: PodId) -> None:
        self.delete(_of(pod_id))

    def _load(self) -> dict[str, str]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=dict[str, str])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            raise Refused(f"cannot read {self._file}", "mend it or remove it, then give your keys anew") from error

    def _write(self, kept: dict[str, str]) -> None:
        try:
            write_whole(self._file, msgspec.json.encode(kept), 0o600)
        except OSError as error:
            raise Refused(f"cannot write {self._file}: {error.strerror}") from error

    def _forget_in_file(self, name: str) -> None:
        kept = self._load()
        if kept.pop(name, None) is not None:
            self._write(kept)

    def _ask(self, question: Callable[[Ring], str | None]) -> str | None:
        """Raises RingFailed. A thread, since a keyring's call cannot be cancelled; it is left behind when it hangs."""
        if self._given is None and self._environ.get("PASSERELLE_KEYRING") == "off":
            raise RingFailed("switched off by PASSERELLE_KEYRING")
        answer: list[str | None] = []
        failure: list[Exception] = []

        def work() -> None:
            try:
                answer.append(question(self._given or _system_ring()))
            except Exception as error:  # noqa: BLE001  backends raise their platform's own errors, of any class
                failure.append(error)

        thread = threading.Thread(target=work, name="passerelle-keyring", daemon=True)
        thread.start()
        thread.join(KEYRING_WITHIN_S)
        if failure:
            raise RingFailed(type(failure[0]).__name__) from failure[0]
        if not answer:
            raise RingFailed(f"no answer within {KEYRING_WITHIN_S:g} s")
        return answer[0]


def _of(pod_id: PodId) -> str:
    return f"pod/{pod_id}"


def _system_ring() -> Ring:
    """Raises for a system that has none: keyring's own `fail` and `null` backends would lose what they are given."""
    import keyring
    from keyring.backends import fail, null

    ring = keyring.get_keyring()
    if isinstance(ring, fail.Keyring | null.Keyring):
        raise RingFailed("this system has no keyring")
    return ring


def fresh_tokens() -> Tokens:
    """Two that nobody else has: every pod gets its own."""
    return Tokens(*(f"pas-{role}-{secrets.token_urlsafe(24)}" for role in ("client", "operator")))


def masked(text: str, known: tuple[str, ...]) -> str:
    """The text without any of the secrets: what is printed of a request, a log or an error goes through here."""
    for secret in sorted(known, key=len, reverse=True):
        if len(secret) >= 6:
            text = text.replace(secret, "•••")
    return text
