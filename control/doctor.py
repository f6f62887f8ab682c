"""Is this machine ready? What was found out -> lines "ok", "warn" or "fail", each with what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from control.claude_code import TESTED, Installed, doubt
from control.connect import UNSET
from control.hub_account import Holder, Repo

INIT = "passerelle init"

CLOCK_WARN_S = 5.0
CLOCK_FAIL_S = 120.0
"""Costs are counted and logs are aged by this clock; certificates and tokens fail when it is far off."""

LEAST_SIZE = (80, 24)


class Level(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    level: Level
    says: str
    remedy: str = ""


def ok(name: str, says: str) -> Check:
    return Check(name, Level.OK, says)


def warn(name: str, says: str, remedy: str) -> Check:
    return Check(name, Level.WARN, says, remedy)


def fail(name: str, says: str, remedy: str) -> Check:
    return Check(name, Level.FAIL, says, remedy)


def exit_code(checks: Iterable[Check]) -> int:
    """0 all well, 1 a warning, 2 a failure."""
    levels = {check.level for check in checks}
    return 2 if Level.FAIL in levels else 1 if Level.WARN in levels else 0


@dataclass(frozen=True, slots=True)
class Machine:
    """What can be seen of this machine without asking anybody."""

    python: tuple[int, int, int]
    system: str
    """sys.platform."""
    is_terminal: bool
    term: str
    encoding: str
    size: tuple[int, int]
    """Columns, lines."""
    true_colour: bool


def machine(seen: Machine) -> list[Check]:
    version = ".".join(map(str, seen.python))
    checks = [
        ok("python", f"{version} on {seen.system}")
        if seen.python >= (3, 11, 0)
        else fail("python", f"{version} is too old", "install Python 3.11 or later")
    ]
    if seen.system != "linux":
        checks.append(ok("embedded pods", "need Linux, and this is not; rented ones and the screen do not"))
    return [*checks, terminal(seen)]


def terminal(seen: Machine) -> Check:
    if not seen.is_terminal:
        return ok("terminal", "none here: the verbs work, with --json too; the screen needs one")
    if seen.term == "dumb":
        return warn("terminal", "TERM=dumb draws no screen", "use another terminal, or set TERM=xterm-256color")
    if seen.encoding.lower().replace("-", "") != "utf8":
        return warn("terminal", f"it is set to {seen.encoding}, and the screen to UTF-8", "export LANG=C.UTF-8")
    columns, lines = seen.size
    if columns < LEAST_SIZE[0] or lines < LEAST_SIZE[1]:
        return warn("terminal", f"{columns}×{lines} is small", "make it 80×24 or larger; 120×40 shows everything")
    colours = "true colour" if seen.true_colour else "no COLORTERM=truecolor: try `passerelle watch --theme ansi`"
    return ok("terminal", f"{columns}×{lines}, {colours}")


def clock(ahead_s: float | None) -> Check:
    if ahead_s is None:
        return warn("clock", "not compared: nobody was reached who says the time", "look again when online")
    off = abs(ahead_s)
    says = f"{off:.0f} s {'ahead of' if ahead_s > 0 else 'behind'} the Hub's"
    if off >= CLOCK_FAIL_S:
        return fail("clock", says, "set it: timedatectl set-ntp true (Linux), or the system's settings")
    if off >= CLOCK_WARN_S:
        return warn("clock", says, "let the system set it by NTP: what a pod cost is counted by it")
    return ok("clock", "agrees with the Hub's")


def key_found(name: str, where: str | None) -> Check | None:
    """None when it is there: what it may do says more."""
    if where is None:
        return fail(name, "not set", f"set {name}, or keep it once and for all: {INIT}")
    return None


def token(name: str, where: str, held: Holder) -> Check:
    """The Hub's token, by its role."""
    says = f"from the {where}, of {held.name}, role {held.role}"
    if held.role == "read":
        return fail(name, f"{says}: it may not publish", "make one with role write: huggingface.co/settings/tokens")
    if held.role == "fineGrained":
        if not any("write" in right for right in held.may):
            return warn(name, f"{says}, and no right to write is listed", "give it write on the repositories of `init`")
        return ok(name, f"{says}: {'; '.join(held.may)}")
    return ok(name, says)


def store(name: str, url: str | None, found: Repo | None) -> Check:
    """`found` is None for a folder that is there."""
    if url is None:
        return warn(name, "not set", f"{INIT}: without it, a rented pod cannot be configured or read when it is gone")
    if found == "not seen":
        return fail(name, f"{url} is not there, or this token may not see it", f"make it: {INIT}")
    if found == "public":
        return warn(name, f"{url} is public", "make it private: what is in it is for you and your pods")
    return ok(name, url if found is None else f"{url}, private")


def ssh_key(path: str | None, fault: str | None, agent: str | None, agent_keys: int | None) -> Check:
    """`fault`: why the key at `path` cannot be used; `agent_keys`: None when the agent does not answer."""
    if agent is not None and agent_keys:
        return ok("ssh key", f"{agent_keys} in the agent at {agent}")
    if agent is not None and path is None:
        why = "does not answer" if agent_keys is None else "holds no key"
        return fail("ssh key", f"the agent at {agent} {why}", "start it and add a key: ssh-add")
    if path is None:
        return warn("ssh key", "not set", f"{INIT}: it is the way to a pod whose bridge hangs")
    if fault is not None:
        return fail("ssh key", f"{path}: {fault}", f"name another, or use an agent: {INIT}")
    return ok("ssh key", path)


def claude_code(installed: Installed | None) -> Check:
    doubted = doubt(installed)
    if doubted is None:
        return ok("claude code", f"{TESTED}, the tested version")
    remedy = f"the tested one: npm install -g @anthropic-ai/claude-code@{TESTED}"
    return warn("claude code", doubted.partition(":")[0], remedy)


def claude_environment(environ: Mapping[str, str]) -> Check:
    """Variables of this shell that would send Claude Code elsewhere than to a pod."""
    named = [name for name in UNSET if environ.get(name)]
    if not named:
        return ok("claude environment", "nothing outranks a pod's token")
    says = f"{', '.join(named)} outrank a pod's token in this shell"
    return warn("claude environment", says, "`passerelle connect` unsets them; a shell that it did not set up has them")


def lines(checks: Sequence[Check]) -> list[str]:
    """For people."""
    width = max((len(check.name) for check in checks), default=0)
    rows: list[str] = []
    for check in checks:
        rows.append(f"{check.level.value:<4}  {check.name:<{width}}  {check.says}")
        if check.remedy and check.level is not Level.OK:
            rows.append(f"      {'':<{width}}  -> {check.remedy}")
    return rows
