"""How far a pod's start is, as its supervisor says it: phases with times, figures, the fault and its remedy. Pure."""

from __future__ import annotations

from bootstrap.report import Boot, Fault, Phase, Preflight, Service, Status

ON_THE_WAY = ("stopped", "preflight", "starting", "downloading", "loading", "draining", "backoff", "asleep")

GRAVE = ("fatal", "unknown", "death")
"""Severities of a fault that ends an engine."""


def exit_code(status: Status) -> int:
    """0 it serves, 1 it is on the way or something is odd, 2 it will not come up by itself."""
    fault = status.boot.fault if status.boot else None
    if status.engine.state == "fatal" or (status.preflight is not None and not status.preflight.go):
        return 2
    if status.engine.state == "serving":
        return 1 if fault is not None or status.config_error else 0
    return 2 if fault is not None and fault.severity in GRAVE else 1


def lines(status: Status) -> list[str]:
    """The verdict first, then what led to it."""
    said = [f"engine {_state(status.engine)}, bridge {_state(status.bridge)}, model {status.model or '–'}"]
    said[0] += f", serial {status.serial if status.serial is not None else '–'}"
    if status.config_error:
        said.append(f"  config not applied: {status.config_error}")
    if status.preflight is not None:
        said += _preflight(status.preflight)
    if status.boot is not None:
        said += _boot(status.boot)
    if status.engine.last_exit:
        said.append(f"  it last ended by {status.engine.last_exit}, restarts {status.engine.restarts}")
    if status.hub:
        said.append(f"  hub: {status.hub}")
    return said


def _state(service: Service) -> str:
    words = f"{service.state} {seconds(service.since_s)}"
    return words if service.next_start_s is None else f"{words}, again in {seconds(service.next_start_s)}"


def _preflight(preflight: Preflight) -> list[str]:
    """Only what is not well."""
    said: list[str] = []
    for check in preflight.checks:
        if check.verdict != "ok":
            said.append(f"  {check.verdict:<5} {check.name}: {check.says}")
            said += [f"        -> {check.remedy}"] if check.remedy else []
    return said


def _boot(boot: Boot) -> list[str]:
    said = [_phase(phase) for phase in boot.phases]
    if boot.figures:
        said.append("  figures  " + "   ".join(f"{name} {value:,.6g}" for name, value in boot.figures.items()))
    if boot.kernels:
        said.append("  kernels  " + "   ".join(f"{part} {kernel}" for part, kernel in boot.kernels.items()))
    return said + (_fault(boot.fault) if boot.fault else [])


def _phase(phase: Phase) -> str:
    took = "so far" if phase.took_s is None else seconds(phase.took_s)
    words = f"  {phase.name:<9} at {seconds(phase.at_s):>7}  {took:>7}"
    if phase.bytes is not None:
        words += f"  {phase.bytes / 1e9:.1f} GB"
    if phase.bytes_per_s is not None:
        words += f" at {phase.bytes_per_s / 1e6:.0f} MB/s"
    return words


def _fault(fault: Fault) -> list[str]:
    figures = "".join(f"   {name} {value}" for name, value in fault.figures.items())
    return [f"  {fault.severity} fault {fault.name}: {fault.line}{figures}", f"        -> {fault.remedy}"]


def seconds(value: float) -> str:
    """ "12.3 s", "3 min 20 s"."""
    if value < 100.0:
        return f"{value:.1f} s"
    return f"{value // 60:.0f} min {value % 60:.0f} s"
