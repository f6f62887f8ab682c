"""The Provider of pods rented from RunPod."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from functools import partial

from control.clock import Clock
from control.errors import NoSuchPod, PasserelleError, Refused, Unauthorized, Unreachable
from control.keys import RUNPOD, Keys
from control.models import Account, Bill, Offer, Pod, PodId, PodLogLine, PodState, Tokens
from control.runpod import launch, life, sdk, wire
from control.runpod.client import Access, Client, read
from control.runpod.launch import Report
from control.runpod.life import Record
from control.runpod.offers import Attempt, attempts
from control.runpod.order import Order
from control.runpod.problems import Ambiguous, NoCapacity, WrongState
from control.runpod.store import Store
from control.runpod.wire import PodAnswer

GONE_PAUSES_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
BILLED_BACK_S = 30 * 86_400.0

UP = (PodState.RUNNING, PodState.STARTING)

SHORT_OF_GPUS = "remake it elsewhere: passerelle pod create --like {id} (then: passerelle pod terminate {id})"


class HostFull(NoCapacity):
    """The one machine that the stopped pod is pinned to has no GPU free."""


class RunPodProvider:
    """See control.provider.Provider; `create`, `offers`, `bill`, `account` and `adopt` are its own."""

    name = "runpod"
    look_every_s = 4.0
    """RunPod's limit is some 60 requests a minute for the whole account, and a start may take 20 minutes."""

    def __init__(self, access: Access, store: Store, keys: Keys, clock: Clock | None = None) -> None:
        self.access = access
        self.clock = clock or Clock()
        self.client = Client(access, self.clock)
        self.store = store
        self._keys = keys

    @classmethod
    def of(cls, store: Store, keys: Keys) -> RunPodProvider:
        """Raises Refused without an API key."""
        key = keys.get(RUNPOD)
        if not key:
            raise Refused("there is no RunPod API key", f"set {RUNPOD}, or keep it once and for all: passerelle init")
        return cls(Access.of(key), store, keys)

    async def list(self) -> tuple[Pod, ...]:
        """Ours and the account's others. A pod that the list leaves out is asked for by its id before it is lost."""
        known = {record.id: record for record in self.store.records() if record.gone_at is None}
        try:
            answers = {answer.id: answer for answer in await self.client.pods()}
        except (Unreachable, Unauthorized) as error:
            if not known:
                raise
            return _sorted([life.unheard(record, error.message, self.access.proxy) for record in known.values()])
        pods = [self._seen(known.get(id_), answer) for id_, answer in answers.items()]
        pods += [await self._unlisted(record) for id_, record in known.items() if id_ not in answers]
        return _sorted([pod for pod in pods if pod.state is not PodState.TERMINATED])

    async def get(self, pod_id: PodId) -> Pod:
        record = self.store.known(pod_id)
        if record is not None and record.gone_at is not None:
            return life.missing(record, self.clock.now(), self.access.proxy)[1]
        try:
            return self._seen(record, await self._answer(pod_id))
        except NoSuchPod:
            if record is None:
                raise
            return self._lost(record)

    async def start(self, pod_id: PodId) -> Pod:
        """Raises HostFull when its machine has no GPU for it now: it cannot move, only be made anew elsewhere."""
        if (await self.get(pod_id)).state in UP:
            raise Refused(f"pod {pod_id} is running already", f"watch it: passerelle watch {pod_id}")
        record = await self._record(pod_id)
        self.store.save(life.start_asked(record, self.clock.now()))
        try:
            answer = read(wire.pod, await self.client.act(pod_id, "start"))
        except NoCapacity as error:
            self.store.save(record)
            raise HostFull(f"pod {pod_id}: {error.message}", SHORT_OF_GPUS.format(id=pod_id)) from error
        except (WrongState, Ambiguous):
            pod = await self.get(pod_id)
            if pod.state in UP:
                return pod
            self.store.save(record)
            raise
        except PasserelleError:
            self.store.save(record)
            raise
        return await self._with_its_gpus(answer, record)

    async def _with_its_gpus(self, answer: PodAnswer, before: Record) -> Pod:
        """A resumed pod may come back without its GPUs; such a one is stopped again, since it costs and serves none."""
        count = answer.gpu.count if answer.gpu else 0
        pod = self._seen(self.store.load(PodId(answer.id)), answer)
        if count >= before.gpu_count:
            return pod
        await self.stop(pod.id)
        raise HostFull(
            f"pod {pod.id} came back with {count} of its {before.gpu_count} GPUs, and was stopped again",
            SHORT_OF_GPUS.format(id=pod.id),
        )

    async def restart(self, pod_id: PodId) -> Pod:
        """A new container on the same machine: its container disk is lost, its volume stays."""
        record = await self._record(pod_id)
        try:
            with self._marked(record, life.start_asked(record, self.clock.now())):
                answer = read(wire.pod, await self.client.act(pod_id, "restart"))
        except WrongState as error:
            raise Refused(f"pod {pod_id} does not run", f"start it: passerelle pod start {pod_id}") from error
        return self._seen(self.store.load(pod_id), answer)

    @contextlib.contextmanager
    def _marked(self, record: Record, asked: Record) -> Iterator[None]:
        """What was asked is kept before it is asked, and taken back when it certainly was not heard."""
        self.store.save(asked)
        try:
            yield
        except Ambiguous:
            raise
        except PasserelleError:
            self.store.save(record)
            raise

    async def stop(self, pod_id: PodId) -> None:
        record = await self._record(pod_id)
        try:
            with self._marked(record, life.stop_asked(record, self.clock.now())):
                await self.client.act(pod_id, "stop")
        except WrongState as error:
            state = (await self.get(pod_id)).state
            if state not in (PodState.EXITED, PodState.TERMINATED):
                raise Refused(f"pod {pod_id} cannot be stopped now: {error.message}") from error

    async def terminate(self, pod_id: PodId) -> None:
        """Done when RunPod no longer knows it: by its id and in the list, twice."""
        record = await self._record(pod_id)
        if record.gone_at is not None:
            return
        asked = life.terminate_asked(record, self.clock.now())
        # Gone already, or not yet listed, or perhaps heard: what follows finds out.
        with self._marked(record, asked), contextlib.suppress(NoSuchPod, Ambiguous):
            await self.client.delete(f"/v2/pods/{pod_id}")
        for pause in GONE_PAUSES_S:
            if (await self.get(pod_id)).state is PodState.TERMINATED:
                self._keys.delete_tokens(pod_id)
                return
            await self.clock.sleep(pause)
        raise Unreachable(f"RunPod still knows pod {pod_id} a minute after its removal was asked", "look again later")

    async def tokens(self, pod_id: PodId) -> Tokens:
        tokens = self._keys.tokens(pod_id)
        if tokens is None:
            raise Refused(f"the tokens of pod {pod_id} are not on this machine", f"passerelle pod adopt {pod_id}")
        return tokens

    async def adopt(self, pod_id: PodId, budget: float | None = None) -> Pod:
        """Take over a pod that was made elsewhere: its tokens are read from its own environment at RunPod."""
        answer = await self._answer(pod_id)
        env = answer.env or {}
        tokens = Tokens(env.get("PASSERELLE_CLIENT_TOKEN", ""), env.get("PASSERELLE_OPERATOR_TOKEN", ""))
        if not (tokens.client and tokens.operator):
            raise Refused(
                f"pod {pod_id} has no PASSERELLE_CLIENT_TOKEN and PASSERELLE_OPERATOR_TOKEN in its environment",
                "it was not made for passerelle: make one with `passerelle pod create`",
            )
        self._keys.set_tokens(pod_id, tokens)
        record = self.store.known(pod_id) or Record(pod_id)
        record = replace(record, ours=True, hub=env.get("PASSERELLE_HUB") or record.hub, gone_at=None)
        return self._seen(replace(record, budget=budget if budget is not None else record.budget), answer, keep=True)

    async def offers_of(
        self, count: int, clouds: tuple[str, ...], cuda: tuple[str, ...] = (), min_cuda: str | None = None
    ) -> tuple[Offer, ...]:
        """What the catalogue has for pods of that many GPUs, in those clouds and CUDA versions."""
        narrowed = {"cudaVersions": ",".join(cuda)} if cuda else {}
        narrowed |= {"minCudaVersion": min_cuda} if min_cuda else {}
        found: list[Offer] = []
        for cloud in clouds:
            asked = {"include": "AVAILABILITY", "product": "POD", "count": str(count), "cloud": cloud}
            body = await self.client.get("/v2/catalog/gpus", **(asked | narrowed))
            found += read(partial(wire.offers, count=count, cloud=cloud), body)
        return tuple(found)

    async def plan(self, order: Order) -> tuple[Attempt, ...]:
        """What `create` would ask for, in order."""
        return attempts(order, await self.offers_of(order.count, order.clouds, order.cuda, order.min_cuda))

    def request(self, order: Order, attempt: Attempt, name: str) -> Mapping[str, object]:
        """The body that `create` would send for that attempt, with every secret masked."""
        return wire.shown(wire.create_body(order, name, attempt.offer, attempt.data_center))

    async def create(self, order: Order, planned: tuple[Attempt, ...], name: str, report: Report) -> Pod:
        """Rent one pod. The order's environment must hold the pod's two tokens (launch.with_env)."""
        env = dict(order.env)
        asked_at = self.clock.now()
        made = await launch.launch(self.client, self.clock, order, name, planned, report)
        record = Record(
            made.answer.id,
            name,
            created_at=asked_at,
            made_here=True,
            ours=True,
            per_hour=made.attempt.offer.per_hour,
            hub=order.hub,
            budget=order.budget,
        )
        self.store.save(record)
        tokens = Tokens(env["PASSERELLE_CLIENT_TOKEN"], env["PASSERELLE_OPERATOR_TOKEN"])
        self._keys.set_tokens(PodId(record.id), tokens)
        return self._seen(record, made.answer)

    async def order_like(self, pod_id: PodId, gpus: tuple[str, ...]) -> Order:
        return launch.same_again(await self._answer(pod_id), gpus)

    async def account(self) -> Account:
        return await sdk.account(self.access.key)

    async def bill(self, pod_id: PodId) -> tuple[Bill, ...]:
        """Hourly charges of the last 30 days; the newest hours may not be billed yet."""
        await self._record(pod_id)
        start = wire.rfc3339(self.clock.now() - BILLED_BACK_S)
        body = await self.client.get("/v2/billing/pods", podId=pod_id, bucketSize="hour", startTime=start)
        return read(lambda body: wire.bills(body, pod_id), body)

    async def log_lines(self, pod_id: PodId, tail: int, follow: bool) -> AsyncIterator[PodLogLine]:
        async for data in self.client.log(pod_id, tail=tail, source=None, follow=follow):
            yield read(wire.log_line, data)

    async def _answer(self, pod_id: PodId) -> PodAnswer:
        self.store.folder(pod_id)
        return read(wire.pod, await self.client.get(f"/v2/pods/{pod_id}"))

    async def _record(self, pod_id: PodId) -> Record:
        """What is known of it; for one that we do not know, what RunPod says, or NoSuchPod."""
        known = self.store.known(pod_id)
        if known is not None:
            return known
        return life.observe(Record(pod_id), await self._answer(pod_id), self.clock.now(), self.access.proxy)[0]

    def _seen(self, record: Record | None, answer: PodAnswer, keep: bool = False) -> Pod:
        after, pod = life.observe(record or Record(answer.id), answer, self.clock.now(), self.access.proxy)
        if record is None:
            return pod
        if after != record or keep:
            self.store.save(after)
        return pod

    def _lost(self, record: Record) -> Pod:
        after, pod = life.missing(record, self.clock.now(), self.access.proxy)
        self.store.save(after)
        return pod

    async def _unlisted(self, record: Record) -> Pod:
        try:
            return await self.get(PodId(record.id))
        except (Unreachable, Unauthorized) as error:
            return life.unheard(record, error.message, self.access.proxy)


def _sorted(pods: list[Pod]) -> tuple[Pod, ...]:
    return tuple(sorted(pods, key=lambda pod: -pod.created_at))
