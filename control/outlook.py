"""What a publish would do to a pod: its plan, for how long and whom it touches, in words and as plain values. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from bootstrap.plan import Action, Plan
from bootstrap.report import Status
from control.draft import Draft

FATES: dict[Action, str] = {
    "nothing": "",
    "reload bridge": ", none of them is lost",
    "swap model": ", the swap waits for them for a bounded time, then cuts them",
    "restart engine": ", the restart waits for them for a bounded time, then cuts them",
    "needs a new pod": ", which go on: the pod keeps what it runs",
}


@dataclass(frozen=True, slots=True)
class Outlook:
    """A draft and what it would do to the pod that runs."""

    draft: Draft
    plan: Plan
    status: Status | None
    """None: no pod answers."""
    why_unknown: str = ""

    @property
    def live(self) -> int | None:
        """Streams in flight; None when nobody says."""
        return self.status.live if self.status is not None else None

    @property
    def eta_s(self) -> float | None:
        """How long the engine's last start took on this pod; None where nothing starts, or nothing is known."""
        restarts = self.plan.action in ("restart engine", "swap model")
        return self.status.engine.took_s if self.status is not None and restarts else None


def lines(outlook: Outlook) -> list[str]:
    """The change, what it restarts, for how long, and whom that touches."""
    said = [*outlook.draft.diff, ""] if outlook.draft.diff else []
    said += [f"  {reason}" for reason in outlook.plan.reasons]
    about = f" (about {outlook.eta_s:.0f} s, as at its last start)" if outlook.eta_s else ""
    said.append(f"plan: {outlook.plan.action}{about}; serial {outlook.draft.serial}")
    if outlook.status is None:
        said.append(f"  what the pod runs is not known ({outlook.why_unknown}): compared with what is published")
    elif outlook.live is not None:
        said.append(f"  streams in flight: {outlook.live}" + (FATES[outlook.plan.action] if outlook.live else ""))
    return said


def values(outlook: Outlook) -> dict[str, object]:
    """For --json."""
    return {
        "serial": outlook.draft.serial,
        "action": outlook.plan.action,
        "reasons": outlook.plan.reasons,
        "reloads_bridge": outlook.plan.reloads_bridge,
        "eta_s": outlook.eta_s,
        "live": outlook.live,
        "running_serial": outlook.status.serial if outlook.status is not None else None,
        "diff": outlook.draft.diff,
        "files": sorted(outlook.draft.files),
    }
