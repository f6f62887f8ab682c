"""Before an engine starts: the machine is asked, the model is patched; and what other models need is downloaded."""

import asyncio
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from bootstrap import preflight
from bootstrap.command import sleeps
from bootstrap.errors import Problem
from bootstrap.keeper import Shop
from bootstrap.launches import Settings
from bootstrap.report import Preflight
from bootstrap.spec import PodSpec

QUESTION_S = 60.0
PATCH_S = 900.0  # pip, over the network
PRELOAD_S = 6 * 3600.0
_STEPS = ("transformers", "fastokens", "tokenizer-shim", "config-ignore")  # of engineside, in this order


def steps(spec: PodSpec, key: str) -> dict[str, tuple[str, ...]]:
    """What must be mended for one model: the words of engineside's `apply` and `undo`, by the step's name."""
    model, fast = spec.models[key], {"fastokens": ()} if spec.serve.fast_tokenizer else {}
    asked = {name: (said,) if isinstance(said, str) else tuple(said) for name, said in model.patches} | fast
    return {name: (name, model.repo, model.revision or "", *asked[name]) for name in _STEPS if name in asked}


class Preparing:
    def __init__(self, settings: Settings, shop: Shop) -> None:
        self._settings, self._shop = settings, shop
        self.verdict: Preflight | None = None
        self.gpus: int | None = None  # None: not known, or none is missed
        self.peer_to_peer, self._preloaded = True, set[str]()
        self.patched: dict[str, str] = {}  # "model: step" -> there, applied, undone, or why not
        self._judged: PodSpec | None = None

    def affordable(self, spec: PodSpec | None) -> PodSpec | None:
        """The spec as this machine can have it."""
        if spec and sleeps(spec) and self.verdict and not self.verdict.may_sleep:
            return spec.restarting()
        return spec

    async def prepare(self, spec: PodSpec, key: str, *, again: bool) -> None:
        """again: the last start failed. Errors: Problem, when no engine may be started here."""
        if again or self._judged is not spec:
            await self._judge(spec)
            if self._judged is not spec:
                self.patched.clear()
            self._judged = spec
        # What the model needs is mended; what did not help is put back, and not tried again with this config.
        for step, words in steps(spec, key).items():
            name = f"{key}: {step}"
            if name not in self.patched:
                await self._mend(name, "apply", words)
            elif again and self.patched[name] == "applied":
                await self._mend(name, "undo", words)

    async def _mend(self, name: str, verb: str, words: tuple[str, ...]) -> None:
        argv = (self._settings.engine_python or "python3", *preflight.ENGINE_SIDE, verb, *words)
        try:
            said = await self._shop.children.run(argv, self._settings.environ, PATCH_S)
            self.patched[name] = said.split()[-1]
        except Problem as problem:
            self.patched[name] = f"not {'applied' if verb == 'apply' else 'undone'}: {problem}"
        self._shop.journal.say("info", f"patch {name}: {self.patched[name]}")

    async def _judge(self, spec: PodSpec) -> None:
        env, outputs = self._settings.environ, dict[str, str]()

        async def ask(name: str, argv: tuple[str, ...]) -> None:
            try:
                outputs[name] = await self._shop.children.run(argv, env, QUESTION_S)
            except Problem as problem:
                self._shop.journal.say("info", f"preflight: {name} is not known: {problem}")

        async with asyncio.TaskGroup() as tasks:
            python, weights = self._settings.engine_python or "", self._settings.weights
            for name, argv in preflight.questions(spec, python, weights).items():
                if shutil.which(argv[0], path=env.get("PATH")):
                    tasks.create_task(ask(name, argv))
        facts = preflight.facts(outputs)
        self.verdict, self.peer_to_peer = preflight.judge(spec, facts), facts.peer_to_peer
        self.gpus = len(facts.host.gpus) or None
        wrong = {check: f"{check.says}: {check.remedy}" for check in self.verdict.checks if check.verdict != "ok"}
        for says in wrong.values():
            self._shop.journal.say("warning", f"preflight: {says}")
        if not self.verdict.go:
            raise Problem("; ".join(says for check, says in wrong.items() if check.verdict == "no-go"))

    async def preload(self, spec: PodSpec, env: Mapping[str, str]) -> None:
        """Download other models' weights, one after the other, after everything else that wants disk and network."""
        hf = shutil.which("hf", path=str(Path(self._settings.engine_python or "/nowhere/python3").parent))
        for key in spec.preload.models:
            model = spec.models.get(key)
            repo, revision = (model.repo, model.revision) if model else (key, None)
            if hf is None or repo in self._preloaded or os.path.isdir(repo):  # noqa: ASYNC240
                continue
            self._preloaded.add(repo)
            argv = ("nice", "-n", "19", hf, "download", repo, *(("--revision", revision) if revision else ()))
            try:
                await self._shop.children.run(argv, env, PRELOAD_S)
                self._shop.journal.say("info", f"preload: {repo} is here")
            except Problem as problem:
                self._shop.journal.say("warning", f"preload: {repo}: {problem}")
