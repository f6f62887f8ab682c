"""What a publish would put into a store: the text with its serial and code, its signature, its plan. Pure."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass

import tomlkit
from tomlkit.exceptions import TOMLKitError

from bootstrap import seal
from bootstrap.plan import Plan
from bootstrap.plan import plan as plan_of
from bootstrap.spec import PodSpec, SpecError, parse
from control.errors import PasserelleError, Refused
from control.hub import CODE, CONFIG, SIGNATURE, Published


class ConfigRefused(PasserelleError):
    """A pod.toml that no pod would take; the text names the line."""

    exit_code = 64


@dataclass(frozen=True, slots=True)
class Code:
    """The pod's code as it is published (control.zipapp)."""

    sha256: str
    text: bytes


@dataclass(frozen=True, slots=True)
class Draft:
    """One publish, ready to be sent on top of what was there."""

    there: Published
    serial: int
    wanted: PodSpec
    files: Mapping[str, bytes]
    """In the order in which a store without transactions puts them: pod.toml, which pods watch, is the last."""
    diff: tuple[str, ...]
    """Lines of a unified diff against what is published; empty where nothing but the serial would change."""
    title: str


def check(text: str, name: str) -> PodSpec:
    """Raises ConfigRefused with file, line and the nearest known key."""
    try:
        return parse(text)
    except SpecError as error:
        raise ConfigRefused(f"{name}: {error}") from error


def draft(
    text: str,
    name: str,
    there: Published,
    operator_token: str,
    code: Code | None,
    least_serial: int,
    mirror: str | None = None,
) -> Draft:
    """`code` None keeps the code that is published; `mirror` is where the log goes if the text names no place.

    Raises ConfigRefused.

    The serial is one more than what is published and what a pod runs (`least_serial`), whatever the text says.
    """
    if check(text, name).log.mirror is None and mirror is not None:
        text = mirrored(text, name, mirror)
    serial = 1 + max(least_serial, serial_of(there.files.get(CONFIG)))
    sha256 = code.sha256 if code is not None else code_of(there.files.get(CONFIG))
    final = stamped(text, name, serial, sha256)
    files = sealed(final, operator_token)
    if code is not None and (code_of(there.files.get(CONFIG)) != code.sha256 or CODE not in there.files):
        files = {CODE: code.text, **files}
    changes = difference(_unstamped(there.files.get(CONFIG)), _unstamped(files[CONFIG]), "published", name)
    return Draft(
        there,
        serial,
        check(final, name),
        files,
        changes,
        _title(serial, changes if CONFIG in there.files else ()),
    )


def mirrored(text: str, name: str, store: str) -> str:
    """The text with [log] mirror, everything else as it was written."""
    try:
        document = tomlkit.parse(text)
        document.setdefault("log", tomlkit.table())["mirror"] = store
        final = tomlkit.dumps(document)
        parse(final)
    except (TOMLKitError, SpecError, TypeError, AttributeError) as error:
        raise ConfigRefused(f"{name}: [log] mirror cannot be set in it: {error}") from error
    return final


def sealed(text: str, operator_token: str) -> dict[str, bytes]:
    """A pod.toml with its signature; the file that pods watch is the last."""
    body = text.encode()
    return {SIGNATURE: (seal.sign(body, operator_token) + "\n").encode(), CONFIG: body}


def stamped(text: str, name: str, serial: int, code_sha256: str | None) -> str:
    """The text with that serial and [code] sha256 (None takes it out), everything else as it was written."""
    try:
        document = tomlkit.parse(text)
        document["serial"] = serial
        if code_sha256 is not None:
            document.setdefault("code", tomlkit.table())["sha256"] = code_sha256
        elif "code" in document:
            document["code"].pop("sha256", None)  # type: ignore[union-attr]
        final = tomlkit.dumps(document)
        read = parse(final)
    except (TOMLKitError, SpecError, TypeError, AttributeError) as error:
        raise ConfigRefused(f"{name}: serial and [code] sha256 cannot be set in it: {error}") from error
    if (read.serial, read.code.sha256) != (serial, code_sha256):
        raise ConfigRefused(f"{name}: serial and [code] sha256 cannot be set in it; write them plainly")
    return final


def plan(running: bytes | None, wanted: PodSpec) -> Plan:
    """What the pod would do; a pod whose config cannot be read here starts anew with what it is given."""
    try:
        before = parse((running or b"").decode())
    except (SpecError, UnicodeDecodeError):
        return Plan("restart engine", ("nothing that can be read is in force",))
    return plan_of(before, wanted)


def serial_of(body: bytes | None) -> int:
    """0 where there is none, so that a broken file can always be replaced."""
    found = _read(body).get("serial")
    return found if type(found) is int and found >= 0 else 0


def code_of(body: bytes | None) -> str | None:
    code = _read(body).get("code")
    found = code.get("sha256") if isinstance(code, dict) else None
    return found if isinstance(found, str) else None


def difference(before: str, after: str, before_name: str, after_name: str) -> tuple[str, ...]:
    """Lines of a unified diff."""
    return tuple(
        line.rstrip("\n")
        for line in difflib.unified_diff(
            before.splitlines(keepends=True), after.splitlines(keepends=True), before_name, after_name
        )
    )


def text_of(there: Published, where: str) -> str:
    """The published pod.toml. Raises Refused when there is none."""
    body = there.files.get(CONFIG)
    if body is None:
        raise Refused(f"nothing is published to {where}", "publish a file first: passerelle config publish pod.toml")
    return body.decode("utf-8", "replace")


def _read(body: bytes | None) -> dict[str, object]:
    try:
        return tomllib.loads((body or b"").decode())
    except ValueError:
        return {}


def _unstamped(body: bytes | None) -> str:
    """Without the serial, which always changes and says nothing."""
    lines = (body or b"").decode("utf-8", "replace").splitlines(keepends=True)
    return "".join(line for line in lines if not line.replace(" ", "").startswith("serial="))


def _title(serial: int, changes: tuple[str, ...]) -> str:
    """Of the commit: "serial 42: images = 8 (and 2 more lines)"."""
    added = [line[1:].strip() for line in changes[2:] if line.startswith("+") and line[1:].strip()]
    if not added:
        return f"serial {serial}"
    more = f" (and {len(added) - 1} more lines)" if len(added) > 1 else ""
    return f"serial {serial}: {added[0][:60]}{more}"
