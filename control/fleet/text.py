"""A FleetSnapshot as a few plain lines, for `passerelle fleet status`. Pure."""

from __future__ import annotations

from control.fleet.view import FleetSnapshot, ReplicaRow
from control.text import UNKNOWN

TITLES = (
    f"  {'REPLICA':<15} {'TAKES':<8} {'ENGINE':<9} {'RUN':>4} {'WAIT':>4} {'KV':>5} {'HITS':>5} {'EVER':>5} "
    f"{'PREFILL':>8} {'DECODE':>7} {'CONV':>5} {'MOVED':>5} {'$/H':>6}  FINDINGS"
)


def lines(snap: FleetSnapshot) -> list[str]:
    """Verdict and problems first, then the rows, then their sums. Rates in tokens per second."""
    said = [f"{snap.verdict.value.upper()}  fleet {snap.name}  {snap.url}"]
    said += [f"  {problem}" for problem in snap.problems]
    said += [TITLES, *(_line(row) for row in snap.replicas)]
    said.append(
        f"  all: running {_of(snap.running)}   waiting {_of(snap.waiting)}   prefill {_of(snap.prefill_tok_s, '.0f')} "
        f"tok/s computed   decode {_of(snap.decode_tok_s, '.0f')} tok/s   {_of(snap.cost_per_hour, '.2f')} $/h, "
        f"{_of(snap.cost_accrued, '.2f')} $ so far"
    )
    if snap.front:
        restarts = ", ".join(f"{one.name} {one.restarts}" for one in snap.front.programs)
        said.append(f"  front: up {snap.front.uptime_s:.0f} s   restarts: {restarts}")
    return said


def _line(row: ReplicaRow) -> str:
    return (
        f"  {row.id:<15} {row.takes or UNKNOWN:<8} {row.engine:<9} {_of(row.running):>4} {_of(row.waiting):>4} "
        f"{_of(row.kv_usage, '.0%'):>5} {_of(row.cache_hit_rate, '.0%'):>5} {_of(row.cache_hit_rate_ever, '.0%'):>5} "
        f"{_of(row.prefill_tok_s, '.0f'):>8} {_of(row.decode_tok_s, '.0f'):>7} {_of(row.conversations):>5} "
        f"{_of(row.moved):>5} {_of(row.cost_per_hour, '.2f'):>6}  {' '.join(row.findings) or '-'}"
    ).rstrip()


def _of(value: float | None, form: str = "") -> str:
    return UNKNOWN if value is None else format(value, form)
