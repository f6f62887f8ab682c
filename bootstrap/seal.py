"""The signature of a published file: hex HMAC-SHA256 over its bytes under the pod's operator token. Pure."""

import hashlib
import hmac


def sign(body: bytes, token: str) -> str:
    """What pod.toml.sig holds."""
    return hmac.new(token.encode(), body, hashlib.sha256).hexdigest()


def check(body: bytes, signature: str | None, token: str) -> str | None:
    """Why the file must be refused; None where it is what the operator signed. Takes the same time for any answer."""
    if not token:
        return "no operator token to check the signature with"
    if not (signature or "").strip():
        return "it is not signed: pod.toml.sig is missing or empty"
    if not hmac.compare_digest(sign(body, token).encode(), (signature or "").strip().lower().encode()):
        return "its signature does not match: it was altered, or signed with the operator token of another pod"
    return None
