"""Before an engine starts: the machine is asked, the model is patched; and what other models need is downloaded."""

import asyncio
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from bootstrap import patches, preflight
from bootstrap.command import sleeps
from bootstrap.errors import Problem
from bootstrap.keeper import Shop
from bootstrap.launches import Settings
from bootstrap.report import Preflight
from bootstrap.spec import PodSpec

QUESTION_S = 60.0
PATCH_S = 900.0  # pip, over the network
PRELOAD_S = 6 * 3600.0


class Preparing:
    def __init__(self, settings: Settings, shop: Shop) -> None:
        self._settings, self._shop = settings, shop
        self.verdict: Preflight | None = None
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
        await self._patch(spec, key, undo=again)

    async def _patch(self, spec: PodSpec, key: str, *, undo: bool) -> None:
        # What the model needs is mended; what did not help is put back, and not tried again with this config.
        env = dict(self._settings.environ)
        for step in patches.steps(spec, key, self._settings.engine_python or "python3"):
            name = f"{key}: {step.name}"
            if undo and self.patched.get(name) == "applied":
                await self._step(name, step.undo, env, "undone")
            elif name not in self.patched and await self._step(name, step.check, env, "there") != "there":
                await self._step(name, step.apply, env, "applied")

    async def _step(self, name: str, argv: tuple[str, ...], env: Mapping[str, str], done: str) -> str:
        try:
            await self._shop.children.run(argv, env, PATCH_S)
            self.patched[name] = done
        except Problem as problem:
            self.patched[name] = f"not {done}: {problem}"
        self._shop.journal.say("info", f"patch {name}: {self.patched[name]}")
        return self.patched[name]

    async def _judge(self, spec: PodSpec) -> None:
        env, outputs = dict(self._settings.environ), dict[str, str]()
        asked = preflight.questions(spec, self._settings.engine_python or "", _weights(env))

        async def ask(name: str, argv: tuple[str, ...]) -> None:
            try:
                outputs[name] = await self._shop.children.run(argv, env, QUESTION_S)
            except Problem as problem:
                self._shop.journal.say("info", f"preflight: {name} is not known: {problem}")

        async with asyncio.TaskGroup() as tasks:
            for name, argv in asked.items():
                if shutil.which(argv[0], path=env.get("PATH")):
                    tasks.create_task(ask(name, argv))
        facts = preflight.facts(outputs)
        self.verdict, self.peer_to_peer = preflight.judge(spec, facts), facts.peer_to_peer
        wrong = [check for check in self.verdict.checks if check.verdict != "ok"]
        for check in wrong:
            self._shop.journal.say("warning", f"preflight: {check.says}; {check.remedy}")
        if not self.verdict.go:
            raise Problem("; ".join(f"{check.says}: {check.remedy}" for check in wrong if check.verdict == "no-go"))

    async def preload(self, spec: PodSpec, env: Mapping[str, str]) -> None:
        """Download other models' weights, one after the other, after everything else that wants disk and network."""
        python = self._settings.engine_python
        for key in spec.preload.models:
            model = spec.models.get(key)
            repo, revision = (model.repo, model.revision) if model else (key, None)
            hf = python and shutil.which("hf", path=str(Path(python).parent))
            if repo in self._preloaded or _is_here(repo) or hf is None:
                continue
            self._preloaded.add(repo)
            argv = ("nice", "-n", "19", hf, "download", repo, *(("--revision", revision) if revision else ()))
            try:
                await self._shop.children.run(argv, env, PRELOAD_S)
                self._shop.journal.say("info", f"preload: {repo} is here")
            except Problem as problem:
                self._shop.journal.say("warning", f"preload: {repo}: {problem}")


def _weights(env: Mapping[str, str]) -> str:
    # The folder that downloads go to, or one of the same disk.
    return next((path for path in (env.get("HF_HOME", ""), "/workspace") if os.path.isdir(path)), "/")


def _is_here(repo: str) -> bool:
    return os.path.isdir(repo)
