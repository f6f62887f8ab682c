"""What the control socket answers: the status, the orders to the pod, and the news for each bridge that watches."""

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator
from dataclasses import asdict

from bootstrap import preflight, report
from bootstrap.ctlsocket import Message, Tell
from bootstrap.errors import Problem
from bootstrap.pod import Pod

SMI_EVERY_S, SMI_LIMIT_S = 2.0, 10.0
_COMMANDS = "status, tail, watch, restart (service bridge or engine), swap (model), apply, keep, desktop, stop-pod"


class Answers:
    def __init__(self, pod: Pod) -> None:
        self._pod, self._started, self._host = pod, time.monotonic(), report.Host()

    async def handle(self, request: Message) -> Message:
        """One request. Errors: Problem, why nothing was done."""
        pod = self._pod
        match request:
            case {"cmd": "status"}:
                return {"status": asdict(self.status(_whole(request, "log_after")))}
            case {"cmd": "tail"}:
                limit = max(1, min(_whole(request, "limit") or 500, 5000))
                lines, log_next = pod.shop.journal.since(_whole(request, "after"), limit)
                return {"log": [asdict(line) for line in lines], "log_next": log_next}
            case {"cmd": "apply"}:
                await pod.apply()
                serial, applied = pod.spec and pod.spec.serial, pod.published.applied
                return {"serial": serial, "applied": asdict(applied) if applied else None}
            case {"cmd": "restart", "service": "engine" | "bridge" as name}:
                pod.restart(name)
            case {"cmd": "swap", "model": str(key)}:
                pod.swap(key)
            case {"cmd": "keep" | "desktop" | "stop-pod" as order}:
                {"keep": pod.keep, "desktop": pod.start_desktop, "stop-pod": pod.stop_pod}[order]()
            case _:
                raise Problem(f"cmd must be one of {_COMMANDS}")
        return {}

    async def watch(self, told: AsyncIterator[Message], tell: Tell) -> None:
        """The news at once and at each change; what the bridge tells of its streams is kept while it is connected."""
        me = object()

        async def report_changes() -> None:
            last = None
            while True:
                changed = self._pod.shop.changed
                if (news := self.news()) != last:
                    await tell({**news, "eta_s": self._pod.fleet.eta_s})
                last = news
                await changed.wait()

        try:
            async with asyncio.TaskGroup() as tasks:
                telling = tasks.create_task(report_changes())
                async for line in told:
                    self._pod.watchers[me] = (_whole(line, "live") or 0, _whole(line, "clients") or 0)
                telling.cancel()
        except* (OSError, ValueError, Problem):
            pass  # The bridge is gone, or is none.
        finally:
            self._pod.watchers.pop(me, None)

    def news(self) -> Message:
        pod, fleet, spec = self._pod, self._pod.fleet, self._pod.spec
        if pod.stop.is_set() or pod.stopping:
            state, reason = "down", "the pod is stopping"
        elif fleet.phase == "fatal":
            state, reason = "down", f"the engine was given up: {fleet.engine and fleet.engine.failure}"
        elif fleet.phase == "serving":
            state, reason = "serving", None
        else:
            swaps = fleet.swap is not None and fleet.swap.took_s is None
            state, reason = "changing", f"swapping to {fleet.wanted}" if swaps else f"the engine is {fleet.phase}"
        return {
            "state": state,
            "url": fleet.engine.url if fleet.engine and state == "serving" else None,
            "model": fleet.wanted or None,
            "models": {key: spec.names(key, fleet.wanted) for key in spec.models} if spec else {},
            "reason": reason,
        }

    def status(self, log_after: int | None) -> report.Status:
        pod, fleet, spec = self._pod, self._pod.fleet, self._pod.spec
        log, log_next = pod.shop.journal.since(log_after)
        live, clients = pod.streams
        return report.Status(
            version=report.VERSION,
            pid=os.getpid(),
            uptime_s=time.monotonic() - self._started,
            serial=spec.serial if spec else None,
            model=fleet.wanted or None,
            config_error=pod.published.error or (None if spec else "there is no config yet"),
            engine=fleet.engine.view() if fleet.engine else report.Service(),
            bridge=pod.bridge.view(),
            host=self._host,
            log=log,
            log_next=log_next,
            source=pod.settings.hub or str(pod.settings.config),
            overrides=spec.overrides if spec else (),
            applied=pod.published.applied,
            boot=fleet.engine.signs.log.boot(pod.shop.clock()) if fleet.engine else None,
            preflight=pod.preparing.verdict,
            patches=dict(pod.preparing.patched),
            sleepers={key: each.view() for key, each in fleet.engines.items() if each.service.phase == "asleep"},
            live=live,
            clients=clients,
            swap=fleet.swap,
            idle=report.Idle(pod.stop_in_s, pod.idle_off, pod.stopping),
            hub=pod.hub_fault,
            code=pod.settings.code,
        )

    async def watch_host(self) -> None:
        """What nvidia-smi says, asked again and again without making anyone wait; that there is none is a fact."""
        children, env, cuda = self._pod.shop.children, self._pod.settings.environ, None
        if (program := shutil.which("nvidia-smi", path=env.get("PATH"))) is None:
            return
        while True:
            try:
                cuda = cuda or preflight.cuda_version(await children.run((program,), env, SMI_LIMIT_S))
                self._host = preflight.parse_query(
                    await children.run((program, *preflight.QUERY), env, SMI_LIMIT_S), cuda
                )
            except Problem as error:
                self._host = report.Host(driver=self._host.driver, cuda=cuda, gpu_error=str(error))
            await asyncio.sleep(SMI_EVERY_S)


def _whole(message: Message, name: str) -> int | None:
    value = message.get(name)
    if value is not None and type(value) is not int:
        raise Problem(f"{name} must be a whole number")
    return value
