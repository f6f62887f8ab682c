"""What may leave the pod: removes known secrets and what looks like one, or else the whole line. Pure."""

# redact.toml has what looks like one.

import base64
import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote, quote_plus

from bootstrap.toml_reader import data

MARK = "[redacted]"
WITHHELD = "[line withheld: redactor failed]"
DUMP = "[line withheld: an environment]"
SHORTEST = 8  # characters; a shorter value of an environment variable is a word that may occur anywhere
_PEM_LINES = 128  # of 64 characters: more than the largest key has; then an end that never came is given up
_DATA = data("redact.toml")
_SECRET_NAME = re.compile(_DATA["secret_name"], re.IGNORECASE)
_DUMP, _PEM_BEGIN, _PEM_END = (re.compile(_DATA[name]) for name in ("dump", "pem_begin", "pem_end"))
_SHAPES = [(re.compile(row["is"], re.IGNORECASE), row["by"].replace("{mark}", MARK)) for row in _DATA["shape"]]


def secret_values(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Values of those environment variables whose name says that they are secret."""
    return tuple(value for name, value in environ.items() if _SECRET_NAME.search(name) and len(value) >= SHORTEST)


class Redactor:
    """Redacts the lines of several sources for the secret values that it knows. Empty values are ignored."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._known: list[str] = []
        self._pem: dict[str, int] = {}  # by source: lines of a key that are still hidden
        self.learn(secrets)

    def learn(self, secrets: Iterable[str]) -> None:
        """Further ones; what was secret once stays so, since what began with it may still run."""
        spellings = {spelling for secret in filter(None, secrets) for spelling in _spellings(secret)}
        # The longest first: a secret that holds another must not leave its rest behind.
        self._known = sorted({*self._known, *spellings}, key=len, reverse=True)

    def line(self, text: str, source: str = "") -> str:
        """The line without its secrets, or a notice in its place when anything at all goes wrong. Never raises."""
        try:
            return DUMP if _DUMP.search(text) else self._clean(self._without_keys(text, source))
        except Exception:  # noqa: BLE001  fails closed: whatever it was, the line must not pass
            return WITHHELD

    def argv(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """A command line fit to be shown: the value after a flag like --api-key is a line of its own here."""
        return tuple(self.line("\n".join(command), "argv").split("\n"))

    def _clean(self, text: str) -> str:
        for secret in self._known:
            text = text.replace(secret, MARK)
        for pattern, replacement in _SHAPES:
            text = pattern.sub(replacement, text)
        return text

    def _without_keys(self, text: str, source: str) -> str:
        before, hidden = text, self._pem.pop(source, 0)
        if not hidden and (begin := _PEM_BEGIN.search(text)):
            before, text, hidden = text[: begin.start()], text[begin.end() :], _PEM_LINES
        if not hidden:
            return text
        kept = before if before is not text else ""
        if end := _PEM_END.search(text):
            return kept + MARK + self._without_keys(text[end.end() :], source)
        if hidden > 1:
            self._pem[source] = hidden - 1
        return kept + MARK


# As it is, in a URL, and inside of base64 at each of the three places where it may begin.
def _spellings(secret: str) -> set[str]:
    raw = secret.encode(errors="surrogatepass")
    found = {secret, quote(secret, safe="", errors="replace"), quote(secret, errors="replace")}
    found.add(quote_plus(secret, errors="replace"))
    for before in range(3) if len(raw) >= SHORTEST else ():
        coded = base64.b64encode(b"\0" * before + raw).decode()
        # Without the characters that hold bits of what stands before and after.
        whole = coded[(before * 8 + 5) // 6 : (before + len(raw)) * 8 // 6]
        found |= {whole, whole.replace("+", "-").replace("/", "_")}
    return found
