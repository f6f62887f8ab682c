"""What may leave the pod: removes known secrets and what looks like one, or else the whole line. Pure."""

import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote

MARK = "[redacted]"
WITHHELD = "[line withheld: redactor failed]"
SHORTEST = 8  # characters; a shorter value of an environment variable is a word that may occur anywhere

_SECRET_NAME = re.compile(r"(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|API_?KEY|ACCESS_?KEY)$", re.IGNORECASE)

_NAMED = r"(?:api[_-]?key|access[_-]?key|(?:access|auth|hf|hub|client|operator)[_-]?token|secret|passw(?:or)?d)"

# Every repeat of a prefix is bounded, so that a long line costs time in proportion to its length.
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (r"\b(hf_|sk-|rpa_|ghp_|github_pat_|xox[a-z]-)[\w-]{8,}", MARK),
        (r"((?:proxy-)?authorization|x-api-key)(['\"]?\s*[:=,]\s*(?:b?['\"])?)[^'\"\r\n]+", rf"\1\2{MARK}"),
        (r"\bbearer\s+[\w.~+/=-]+", f"Bearer {MARK}"),
        (rf"\b([\w-]{{0,40}}{_NAMED})(['\"]?\s*[:=]\s*[\[(]?['\"]?)[^\s'\",;&)}}\]]+", rf"\1\2{MARK}"),
        (rf"(--[\w-]{{0,40}}{_NAMED})(\s+)\S+", rf"\1\2{MARK}"),
        (r"(?<![\w-])token=[^\s'\",;&)}\]]+", f"token={MARK}"),
        (r"\b([a-z][a-z0-9+.-]{0,20}://)[^/\s@]{1,256}@", rf"\1{MARK}@"),
    )
)


def secret_values(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Values of those environment variables whose name says that they are secret."""
    return tuple(value for name, value in environ.items() if _SECRET_NAME.search(name) and len(value) >= SHORTEST)


class Redactor:
    """Redacts lines for a fixed set of secret values. Empty values are ignored."""

    def __init__(self, secrets: Iterable[str]) -> None:
        plain = set(filter(None, secrets))
        spellings = plain | {quote(secret, safe="", errors="replace") for secret in plain}
        # The longest first: a secret that holds another must not leave its rest behind.
        self._known = sorted(spellings, key=len, reverse=True)

    def line(self, text: str) -> str:
        """The line without its secrets; WITHHELD when anything at all goes wrong. Never raises."""
        try:
            for secret in self._known:
                text = text.replace(secret, MARK)
            for pattern, replacement in _PATTERNS:
                text = pattern.sub(replacement, text)
        except Exception:  # noqa: BLE001  fails closed: whatever it was, the line must not pass
            return WITHHELD
        return text

    def argv(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """A command line fit to be shown: the value after a flag like --api-key is a line of its own here."""
        return tuple(self.line("\n".join(command)).split("\n"))
