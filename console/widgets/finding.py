"""What limits or breaks the pod: the worst finding with its lever, and how many more there are."""

from __future__ import annotations

from console.format import printable, tight_age
from console.rows import GLYPH, Role, Row, Rows, clip, spread
from console.widgets.part import Part
from control.observe.snapshot import Finding, Severity, Snapshot, Verdict

RANK: dict[Severity, int] = {"critical": 0, "warning": 1, "info": 2}
MARK: dict[Severity, tuple[Role, str]] = {
    "critical": ("bad", GLYPH["bad"]),
    "warning": ("watch", GLYPH["watch"]),
    "info": ("label", "·"),
}


class FindingLines(Part):
    """One or two lines, always held free, so that nothing below moves when a finding comes or goes."""

    def rows(self, snap: Snapshot, width: int, height: int) -> Rows:
        return findings(snap, width, height)


def ranked(snap: Snapshot) -> tuple[Finding, ...]:
    """Worst first; equal ones in the order that the rules gave."""
    return tuple(sorted(snap.findings, key=lambda finding: RANK[finding.severity]))


def findings(snap: Snapshot, width: int, height: int) -> Rows:
    """Title and numbers, then the lever. On one line the lever is what is left out."""
    found = ranked(snap)
    if not found:
        return (clip(_nothing(snap), width),)
    first = found[0]
    role, glyph = MARK[first.severity]
    head: Row = (
        (role, f"{glyph} {printable(first.title).upper()}"),
        ("plain", "  " + printable(first.detail)),
    )
    others = len(found) - 1
    if height < 2:
        return (spread(head, (("label", f"+{others} " if others else ""), ("brand", "f")), width),)
    more = f"+{others} more · " if others else ""
    hint: Row = (("label", more), ("brand", "f"), ("label", " explains"))
    lever: Row = (("label", "  lever: "), ("plain", printable(first.lever))) if first.lever else ()
    return (clip(head, width), spread(lever, hint, width))


def _nothing(snap: Snapshot) -> Row:
    """No rule fired: say what is known instead, without calling it well when it is not."""
    match snap.verdict:
        case Verdict.UNKNOWN:
            return (("label", "first look at the pod…"),)
        case Verdict.STOPPED:
            return (("label", "the provider says that the pod is stopped: nothing runs, its disk is kept"),)
        case Verdict.HEALTHY:
            return (("label", "no limit found"),)
        case _:
            return _dark_light(snap)


def _dark_light(snap: Snapshot) -> Row:
    for light in snap.lights:
        if light.state == "bad":
            seen = f"last good {tight_age(light.age_s)} ago" if light.age_s is not None else "never good yet"
            detail = f"{printable(light.detail)}, " if light.detail else ""
            return (("bad", f"{GLYPH['bad']} {light.name.upper()}"), ("plain", f"  {detail}{seen}"))
    return (("label", "no finding"),)
