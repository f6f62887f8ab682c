"""What a good publish looks like, made by hand, so that the code under test does not check itself."""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import zipfile

OPERATOR = "pas-operator-0123456789abcdefghij"
CONFIG = """serial = {serial}

[serve]
model = "tiny"

[models.tiny]
repo = "owner/tiny"

[code]
sha256 = "{sha256}"
"""


def app(main: str) -> bytes:
    """A zipapp of one file."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(zipfile.ZipInfo("__main__.py", (1980, 1, 1, 0, 0, 0)), main)
    return out.getvalue()


def signed(config: bytes, token: str = OPERATOR) -> bytes:
    return hmac.new(token.encode(), config, hashlib.sha256).hexdigest().encode() + b"\n"


def published(serial: int, main: str, token: str = OPERATOR) -> dict[str, bytes | None]:
    """The three files of a store."""
    code = app(main)
    config = CONFIG.format(serial=serial, sha256=hashlib.sha256(code).hexdigest()).encode()
    return {
        "pod.toml": config,
        "pod.toml.sig": signed(config, token),
        "passerelle.pyz.b64": base64.encodebytes(code),
    }
