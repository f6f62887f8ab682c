"""The head of an HTTP/1.1 request, read and written anew: all that the front changes of an exchange. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

END = b"\r\n\r\n"

HOP = ("connection", "keep-alive", "proxy-connection", "te", "upgrade", "expect")
"""What is about one connection, and not about the request (RFC 9110, 7.6.1)."""


class BadHead(ValueError):
    """No request that we can pass on; the text says why."""


@dataclass(frozen=True, slots=True)
class Head:
    """Header names are in lower case, in the order of their coming."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]

    def get(self, name: str) -> str | None:
        """The first of that name."""
        return next((value for key, value in self.headers if key == name), None)

    @property
    def length(self) -> int:
        """Bytes of the body. Raises BadHead where that is not said, or not as one number."""
        if self.get("transfer-encoding"):
            raise BadHead("a body in chunks is not taken; say its content-length")
        said = {value for key, value in self.headers if key == "content-length"} or {"0"}
        if len(said) > 1 or not (text := said.pop()).isascii() or not text.isdigit():
            raise BadHead("content-length is not one number")
        return int(text)

    def but(self, target: str, add: Mapping[str, str], drop: Collection[str] = ()) -> Head:
        """The same request to another place, with other headers, and for one connection that ends with it."""
        gone = {*HOP, *drop, *add}
        kept = tuple((key, value) for key, value in self.headers if key not in gone)
        return replace(self, target=target, headers=(*kept, *add.items(), ("connection", "close")))

    def render(self) -> bytes:
        lines = [f"{self.method} {self.target} HTTP/1.1", *(f"{key}: {value}" for key, value in self.headers)]
        return "\r\n".join(lines).encode("latin-1") + END


def parse(raw: bytes) -> Head:
    """A head with its empty line. Raises BadHead."""
    first, *lines = raw.removesuffix(END).decode("latin-1").split("\r\n")
    method, _, rest = first.partition(" ")
    target, _, version = rest.partition(" ")
    if not (method.isascii() and method.isalpha() and target.startswith("/")) or version not in (
        "HTTP/1.1",
        "HTTP/1.0",
    ):
        raise BadHead("that is no HTTP/1.1 request")
    headers = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or _unclean(line):
            raise BadHead("a header that is none")
        headers.append((name.lower(), value.strip()))
    if _unclean(target):
        raise BadHead("a target that is none")
    return Head(method, target, tuple(headers))


def _unclean(text: str) -> bool:
    """A bare line end would begin a header of its own in what we send on."""
    return any(sign in text for sign in "\r\n\0")
