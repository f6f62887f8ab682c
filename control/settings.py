"""What this operator has set up once: HOME/settings.toml. No secret is in it (control.keys has those)."""

from __future__ import annotations

import difflib
import json
import tomllib
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from control.errors import UsageError
from control.store import home, write_whole

FILE = "settings.toml"

AGAIN = "mend it, or write it anew: passerelle init"


@dataclass(frozen=True, slots=True)
class Settings:
    """Each is None until it is set."""

    hub: str | None = None
    """The store that a pod's configuration is published to."""
    log_mirror: str | None = None
    """The store that pods mirror their log to: another one than `hub`, whose every commit a pod looks at."""
    ssh_key: str | None = None
    """Path of the private key that pods know."""
    ssh_agent: str | None = None
    """Path of an SSH agent's socket."""

    def identity(self) -> Identity:
        return Identity(Path(self.ssh_key).expanduser() if self.ssh_key else None, self.ssh_agent)


@dataclass(frozen=True, slots=True)
class Identity:
    """What we log in to a pod with. Neither named: the key files that OpenSSH itself would try."""

    key: Path | None = None
    agent: str | None = None


def path(root: Path | None = None) -> Path:
    return (root or home()) / FILE


def load(root: Path | None = None) -> Settings:
    """Raises UsageError for a file that cannot be read, with the nearest known key."""
    file = path(root)
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        return Settings()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {file}: {error}", AGAIN) from error
    return parse(text, str(file))


def parse(text: str, name: str) -> Settings:
    """Raises UsageError, which names the file and the key."""
    try:
        read = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{name}: {error}", AGAIN) from error
    known = [field.name for field in fields(Settings)]
    for key, value in read.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            raise UsageError(f"{name}: unknown key {key!r}", f"did you mean {near[0]!r}?" if near else AGAIN)
        if not isinstance(value, str):
            raise UsageError(f"{name}: {key} should be a string, and is {value!r}", AGAIN)
    return Settings(**read)


def save(settings: Settings, root: Path | None = None) -> Path:
    """Write what is set; returns where."""
    file = path(root)
    write_whole(file, render(settings).encode(), 0o600)
    return file


def render(settings: Settings) -> str:
    """TOML. A JSON string is a TOML string, but for U+007F, which TOML wants escaped."""
    lines = ["# Written by `passerelle init`. Secrets are kept elsewhere."]
    for key, value in asdict(settings).items():
        if value is not None:
            lines.append(f"{key} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f"))
    return "\n".join(lines) + "\n"
