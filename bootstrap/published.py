"""The published config: what may come into force, what it changes, and the last good one on disk. An edge."""

from collections.abc import Mapping
from pathlib import Path

from bootstrap import seal, spec
from bootstrap.command import TOKENS
from bootstrap.errors import Problem, failing_as
from bootstrap.hubworker import replace_file
from bootstrap.plan import plan
from bootstrap.report import Applied
from bootstrap.spec import PodSpec


class Published:
    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.spec: PodSpec | None = None
        self.applied: Applied | None = None
        self.error: str | None = None  # why what was offered last is not in force
        self.gpus: int | None = None  # of this pod, where that is known
        self._kept, self._environ = folder / "pod.toml", environ

    def take(self, body: bytes, commit: str | None, now: float, signature: str | None = None) -> PodSpec | None:
        """What was in force before. `signature` None: a file of the pod's own. Errors: Problem, in `error` too."""
        before, self.error = self.spec, None
        try:
            wanted = self._checked(body, signature)
            if wanted != before:
                self.applied = self._applied(wanted, commit, now)
                self.spec = wanted
            if signature is not None:
                replace_file(self._kept, body)
                replace_file(self._kept.with_suffix(".toml.sig"), signature.encode())
        except Problem as problem:
            self.error = str(problem)
            raise
        return before

    def recall(self, now: float) -> PodSpec | None:
        """The last good one, where the Hub does not answer at a start. Errors: Problem."""
        with failing_as("no config was kept"):
            return self.take(self._kept.read_bytes(), None, now, self._kept.with_suffix(".toml.sig").read_text())

    def _checked(self, body: bytes, signature: str | None) -> PodSpec:
        if signature is not None and (fault := seal.check(body, signature, self._environ[TOKENS[1]])):
            raise Problem(f"refused: {fault}")
        with failing_as("refused: pod.toml"):
            wanted = spec.load(body.decode(), self._environ)
        if self.spec and signature is not None and wanted.serial <= self.spec.serial and wanted != self.spec:
            raise Problem(f"refused: serial {wanted.serial} is not above {self.spec.serial}, which is in force")
        return wanted

    def _applied(self, wanted: PodSpec, commit: str | None, now: float) -> Applied:
        if self.spec is None:
            return Applied(now, "start", (), commit)
        change = plan(self.spec, wanted, self.gpus)
        if change.action == "needs a new pod":
            raise Problem("needs a new pod: " + ", ".join(change.reasons))
        return Applied(now, change.action, change.reasons, commit)
