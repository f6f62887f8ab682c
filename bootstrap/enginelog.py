"""What vLLM's log says of its start and of what is wrong with it: phases, figures, kernels, the fault. Pure."""

# enginelog.toml and faults.toml hold every pattern.

import re
from collections.abc import Mapping
from typing import Any

from bootstrap.report import Boot, Fault, Phase
from bootstrap.toml_reader import data

_LOG, _FAULTS = data("enginelog.toml"), data("faults.toml")
# A cause goes before what died of it, whichever comes first. Among equals the first one is the cause, and of warnings
# the last one is news.
_RANK = {"warning": 0, "symptom": 1, "death": 2, "unknown": 2, "fatal": 3}
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_LINE = re.compile(
    r"(?:\((?P<process>[\w-]+) pid=\d+\) )?(?:(?P<level>[A-Z]+) \d\d-\d\d \d\d:\d\d:\d\d \[[^]]*\] )?(?P<text>.*)",
    re.DOTALL,
)
_RAISED = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Full|Timeout)\b(?:: |$)")


class EngineLog:
    """One engine's life; a new process has a new one. `at` and `now` are seconds of one clock."""

    def __init__(self, at: float) -> None:
        self.began = at
        self._phases: list[tuple[str, float]] = [("start", at)]
        self._took: dict[str, float] = {}
        self._bytes: dict[str, float] = {}
        self._figures: dict[str, float] = {}
        self._kernels: dict[str, str] = {}
        self.fault: Fault | None = None

    @property
    def phase(self) -> str:
        return self._phases[-1][0]

    def feed(self, line: str, at: float) -> None:
        """One line, however long or odd."""
        parts = _LINE.match(line[:4096])
        said: dict[str, str] = parts.groupdict("") if parts else {"process": "", "level": "", "text": line}
        if self.phase != "ready":
            self._follow(said["text"], at)
        self._figures |= {name: float(value.replace(",", "")) for name, value in _read("figures", said["text"])}
        self._kernels |= dict(_read("kernels", said["text"]))
        fault = _known(said["text"], self.phase) or self._unknown(said)
        rank = _RANK[self.fault.severity] if self.fault else -1
        if fault and (_RANK[fault.severity] > rank or rank == 0):
            self.fault = fault

    def boot(self, now: float) -> Boot:
        ends = [at for _, at in self._phases[1:]] + [now]
        phases = [self._phase(name, at, end) for (name, at), end in zip(self._phases, ends, strict=True)]
        ready = self.phase == "ready"
        return Boot(tuple(phases), ready, dict(self._figures), dict(self._kernels), self.fault)

    def _follow(self, text: str, at: float) -> None:
        for name, row in _LOG["phases"].items():
            if name != self.phase and re.search(row["begins"], text):
                if row.get("in_place_of") == self.phase:
                    at = self._phases.pop()[1]
                self._phases.append((name, at))
            if "took" in row and (found := re.search(row["took"], text)):
                self._took[name] = float(found[1])
            if "progress" in row and (found := re.search(row["progress"], text)):
                self._bytes[found["file"]] = float(found["size"]) * _UNITS[found["unit"]]

    def _phase(self, name: str, at: float, end: float) -> Phase:
        lasts = name == self.phase and name != "ready"
        took = 0.0 if name == "ready" else self._took.get(name) or end - at
        size = sum(self._bytes.values()) if name == "download" else None
        return Phase(name, at - self.began, None if lasts else took, size, size / max(end - at, 0.1) if size else None)

    # A fatal line that no row knows. Once it serves, the API server logs what only one request died of.
    def _unknown(self, said: Mapping[str, str]) -> Fault | None:
        of_a_request = self.phase == "ready" and said["process"] in ("", "APIServer")
        if said["level"] not in ("", "ERROR", "CRITICAL") or of_a_request or not _RAISED.match(said["text"]):
            return None
        return Fault("unknown", "unknown", said["text"], "nobody has met this line yet: read the lines around it", {})


def _known(text: str, phase: str) -> Fault | None:
    for name, row in _FAULTS.items():
        found = re.search(row["pattern"], text) if phase in row.get("phases", (phase,)) else None
        if found:
            figures: dict[str, Any] = found.groupdict()
            remedy = row["remedy"].format(**{key: value or "what fits" for key, value in figures.items()})
            return Fault(name, row["severity"], text, remedy, {key: value for key, value in figures.items() if value})
    return None


def _read(table: str, text: str) -> list[tuple[str, str]]:
    found = [(name, re.search(pattern, text)) for name, pattern in _LOG[table].items()]
    return [(name, next(filter(None, match.groups()), "")) for name, match in found if match]
