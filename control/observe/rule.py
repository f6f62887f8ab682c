"""A rule: a condition, how long it must hold before it is said, and its sentence. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from control.observe.case import Case
from control.observe.snapshot import Severity


@dataclass(frozen=True, slots=True)
class Rule:
    id: str
    severity: Severity
    title: str
    holds: Callable[[Case], bool]
    detail: Callable[[Case], str]
    lever: str
    hold_s: float = 0.0
    stays: Callable[[Case], bool] | None = None
    """Once said, it is said as long as this holds too: a cause does not flap while its effect lasts."""
    hidden_by: str = ""
    """Not said while the rule of this id is: that one explains it."""
