"""What the control socket answers: the status, the orders to the pod, and the news for each bridge that watches."""

import asyncio
import math
import os
import shutil
import time
from collections.abc import AsyncIterator
from dataclasses import asdict

from bootstrap import host, report
from bootstrap.ctlsocket import Message, Tell
from bootstrap.errors import Problem
from bootstrap.pod import Pod

APPLY_S = 12.0
_NONE = report.Service("stopped", None, 0.0, 0, 0, None, None, ())
_COMMANDS = "status, tail, watch, restart (service bridge or engine), swap (model), apply, keep, desktop, stop-pod"


class Answers:
    def __init__(self, pod: Pod) -> None:
        self._pod, self._started, self._host = pod, time.monotonic(), report.Host()

    async def handle(self, request: Message) -> Message:
        """One request. Errors: Problem, why nothing was done."""
        pod = self._pod
        match request:
            case {"cmd": "status"}:
                return {"status": asdict(self.status(_whole(request, "log_after", None)))}
            case {"cmd": "tail"}:
                limit = _whole(request, "limit", 500) or 500
                lines, log_next = pod.shop.journal.since(_whole(request, "after", None), max(1, min(limit, 5000)))
                return {"log": [asdict(line) for line in lines], "log_next": log_next}
            case {"cmd": "restart", "service": "engine" | "bridge" as name}:
                pod.restart(name)
            case {"cmd": "swap", "model": str(key)}:
                pod.demand(key)
            case {"cmd": "apply"}:
                return await self._apply()
            case {"cmd": "keep"}:
                pod.keep()
            case {"cmd": "desktop"}:
                pod.keep_desktop(on=True)
            case {"cmd": "stop-pod"}:
                pod.stop_pod()
            case _:
                raise Problem(f"cmd must be one of {_COMMANDS}")
        return {}

    async def _apply(self) -> Message:
        # Look at the published config now; what came of it.
        pod = self._pod
        if pod.settings.hub is None:
            pod.read_file()
        else:
            await pod.look_at_hub(APPLY_S)
        if pod.published.error:
            raise Problem(pod.published.error)
        pod.fleet.forgive()
        applied, spec = pod.published.applied, pod.published.spec
        return {"serial": spec.serial if spec else None, "applied": asdict(applied) if applied else None}

    async def watch(self, told: AsyncIterator[Message], tell: Tell) -> None:
        """The news at once and at each change; what the bridge tells of its streams is kept while it is connected."""
        me = object()

        async def report_changes() -> None:
            last = None
            while True:
                changed = self._pod.shop.news.event
                if (news := self.news()) != last:
                    await tell({**news, "eta_s": self._eta_s()})
                last = news
                await changed.wait()

        try:
            async with asyncio.TaskGroup() as tasks:
                telling = tasks.create_task(report_changes())
                async for line in told:
                    self._pod.watchers[me] = (_whole(line, "live", 0) or 0, _whole(line, "clients", 0) or 0)
                telling.cancel()
        except* (OSError, ValueError, Problem):
            pass  # The bridge is gone, or is none.
        finally:
            self._pod.watchers.pop(me, None)

    def news(self) -> Message:
        pod, spec = self._pod, self._pod.published.spec
        engine, phase = pod.fleet.engine, pod.fleet.engine.service.phase if pod.fleet.engine else "stopped"
        reason: str | None = f"the engine is {phase}"
        if pod.stop.is_set() or pod.stopping:
            state, reason = "down", "the pod is stopping"
        elif engine and phase == "serving":
            state, reason = "serving", None
        elif engine and phase == "fatal":
            state, reason = "down", f"the engine was given up: {engine.service.last_exit}"
        else:
            state = "changing"
            if pod.fleet.swap and pod.fleet.swap.took_s is None:
                reason = f"swapping to {pod.fleet.swap.model}"
        return {
            "state": state,
            "url": engine.url if engine and state == "serving" else None,
            "model": pod.fleet.wanted or None,
            "models": {key: spec.names(key, pod.fleet.wanted) for key in spec.models} if spec else {},
            "reason": reason,
        }

    def _eta_s(self) -> float | None:
        engine = self._pod.fleet.engine
        if engine is None or engine.service.took_s is None or engine.service.phase == "serving":
            return None
        return max(0.0, engine.service.took_s - (engine.shop.clock() - engine.service.begun))

    def status(self, log_after: int | None) -> report.Status:
        pod, now = self._pod, self._pod.shop.clock()
        spec, engine, count = pod.published.spec, pod.fleet.engine, pod.countdown
        log, log_next = pod.shop.journal.since(log_after)
        quiet = math.isfinite(count.remaining_s) and not count.busy
        return report.Status(
            version=report.VERSION,
            pid=os.getpid(),
            uptime_s=time.monotonic() - self._started,
            serial=spec.serial if spec else None,
            model=pod.fleet.wanted or None,
            config_error=pod.published.error or (None if spec else "there is no config yet"),
            engine=engine.view() if engine else _NONE,
            bridge=pod.bridge.view() if pod.bridge else _NONE,
            host=self._host,
            log=log,
            log_next=log_next,
            source=pod.settings.hub or str(pod.settings.config),
            overrides=spec.overrides if spec else (),
            applied=pod.published.applied,
            boot=engine.signs.log.boot(now) if engine else None,
            preflight=pod.preparing.verdict,
            patches=dict(pod.preparing.patched),
            sleepers={key: each.view() for key, each in pod.fleet.engines.items() if each.service.phase == "asleep"},
            live=pod.live,
            clients=sum(clients for _, clients in pod.watchers.values()) if pod.watchers else None,
            swap=pod.fleet.swap,
            idle=report.Idle(count.remaining_s if quiet else None, pod.idle_off, pod.stopping),
            hub=pod.hub_fault,
            code=pod.settings.code,
        )

    async def watch_host(self, every_s: float = 2.0, limit_s: float = 10.0) -> None:
        """What nvidia-smi says, asked again and again without making anyone wait; that there is none is a fact."""
        children, env, cuda = self._pod.shop.children, self._pod.settings.environ, None
        if (program := shutil.which("nvidia-smi", path=env.get("PATH"))) is None:
            return
        while True:
            try:
                cuda = cuda or host.cuda_version(await children.run((program,), env, limit_s))
                rows = await children.run((program, *host.QUERY), env, limit_s)
                self._host = host.parse_query(rows, cuda)
            except Problem as error:
                self._host = report.Host(driver=self._host.driver, cuda=cuda, gpu_error=str(error))
            await asyncio.sleep(every_s)


def _whole(message: Message, name: str, default: int | None) -> int | None:
    value = message.get(name, default)
    if value is not None and type(value) is not int:
        raise Problem(f"{name} must be a whole number")
    return value
