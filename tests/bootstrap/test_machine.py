"""Histories as tables, completeness over (state, event), and properties over any order of events."""

from __future__ import annotations

import itertools
import math
import random
import typing
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bootstrap import machine
from bootstrap.machine import (
    BRIDGE,
    ENGINE,
    TABLE,
    Action,
    Event,
    Fact,
    Policy,
    Service,
    Wish,
    backoff_s,
    steer,
    step,
)
from bootstrap.report import ServiceState

SPAWN = Action("spawn")
PLAIN = replace(ENGINE, prepares=False, drain_s=None)
SLEEPER = replace(ENGINE, prepares=False, sleeps=True)
NAMES = (*typing.get_args(Wish), *typing.get_args(Fact), "tick")
STATES = typing.get_args(ServiceState)

History = list[tuple[float, Event]]


def kill(pid: int) -> Action:
    return Action("kill", pid)


def terminate(pid: int) -> Action:
    return Action("terminate", pid)


def ev(name: str, pid: int | None = None, text: str = "", limit_s: float = 10.0) -> Event:
    return Event(typing.cast(typing.Any, name), pid, text, limit_s)


RUN, REST, RESTART, TICK = ev("run"), ev("rest"), ev("restart"), ev("tick")


def stop(limit_s: float = 3.0) -> Event:
    return ev("stop", limit_s=limit_s)


def exited(pid: int | None, how: str = "x") -> Event:
    return ev("exited", pid, how)


def silent(pid: int, why: str = "t") -> Event:
    return ev("silent", pid, why)


def answered(pid: int) -> Event:
    return ev("answered", pid)


def spawned(pid: int) -> Event:
    return ev("spawned", pid)


def play(service: Service, *history: tuple[float, Event]) -> tuple[Service, list[Action]]:
    """Feed a history; the last state, and all actions."""
    actions: list[Action] = []
    for now, event in history:
        service, asked = step(service, event, now)
        actions += asked
    return service, actions


def serving(policy: Policy, pid: int = 10) -> Service:
    ready = [(0.0, ev("ready", 1))] if policy.prepares else []
    service, _ = play(Service(policy), (0.0, RUN), *ready, (0.0, spawned(pid)), (0.0, answered(pid)))
    assert service.phase == "serving"
    return service


ENGINE_UP, PLAIN_UP, BRIDGE_UP, SLEEPER_UP = (serving(policy) for policy in (ENGINE, PLAIN, BRIDGE, SLEEPER))
SLEEPING: History = [(1.0, REST), (2.0, ev("drained")), (46.0, ev("slept", 10))]
DUMP = Action("dump", 10)


@pytest.mark.parametrize(
    ("start", "history", "phase", "actions"),
    [
        (Service(PLAIN), [(0.0, RUN)], "starting", [SPAWN]),
        # An engine is prepared before it is started; one that must not be started never is.
        (Service(ENGINE), [(0.0, RUN)], "preflight", [Action("prepare", 1)]),
        (Service(ENGINE), [(0.0, RUN), (5.0, ev("ready", 1))], "starting", [Action("prepare", 1), SPAWN]),
        (Service(ENGINE), [(0.0, RUN), (5.0, ev("refused", 1, "no GPU"))], "fatal", [Action("prepare", 1)]),
        # The answer to an older question does not count.
        (
            Service(ENGINE),
            [(0.0, RUN), (1.0, RESTART), (2.0, ev("ready", 1))],
            "preflight",
            [Action("prepare", 1), Action("prepare", 2)],
        ),
        # What its log says is shown, and each part of a start has a time limit of its own.
        (
            Service(PLAIN),
            [(0.0, RUN), (0.0, spawned(10)), (9.0, ev("seen", 10, "downloading")), (1800.0, TICK)],
            "downloading",
            [SPAWN],
        ),
        (
            Service(PLAIN),
            [(0.0, RUN), (0.0, spawned(10)), (9.0, ev("seen", 10, "loading")), (1810.0, TICK)],
            "loading",
            [SPAWN, kill(10)],
        ),
        # A good run that ends is started again at once.
        (PLAIN_UP, [(60.0, exited(10))], "starting", [SPAWN]),
        # So is the first death ever, however early; the second waits.
        (BRIDGE_UP, [(1.0, exited(10))], "starting", [SPAWN]),
        (BRIDGE_UP, [(1.0, exited(10)), (1.0, spawned(11)), (2.0, exited(11))], "backoff", [SPAWN]),
        # A failed probe is forgiven, two of the bridge in a row are not; those of the engine are not counted.
        (BRIDGE_UP, [(1.0, silent(10)), (2.0, answered(10)), (3.0, silent(10))], "serving", []),
        # A hung bridge writes its stacks, and is killed.
        (BRIDGE_UP, [(1.0, silent(10)), (2.0, silent(10))], "serving", [DUMP]),
        (BRIDGE_UP, [(1.0, silent(10)), (2.0, silent(10)), (2.5, TICK)], "serving", [DUMP, kill(10)]),
        (BRIDGE_UP, [(1.0, silent(10)), (2.0, silent(10)), (2.4, exited(10))], "starting", [DUMP, SPAWN]),
        (ENGINE_UP, [(float(at), silent(10)) for at in range(1, 99)], "serving", []),
        # An engine that is known to be dead is killed at once, and started again.
        (PLAIN_UP, [(60.0, ev("doomed", 10, "no EngineCore"))], "serving", [kill(10)]),
        (PLAIN_UP, [(60.0, ev("doomed", 10)), (60.1, exited(10))], "starting", [kill(10), SPAWN]),
        # What was said of another process says nothing of this one.
        (BRIDGE_UP, [(float(at), silent(9)) for at in range(1, 9)], "serving", []),
        (ENGINE_UP, [(1.0, ev("doomed", 9, "x"))], "serving", []),
        # Restart: the bridge's old process drains while the new one starts; the engine drains, and must be gone first.
        (BRIDGE_UP, [(1.0, RESTART)], "starting", [terminate(10), SPAWN]),
        (ENGINE_UP, [(1.0, RESTART)], "draining", []),
        (ENGINE_UP, [(1.0, RESTART), (3.0, ev("drained"))], "stopping", [terminate(10)]),
        (ENGINE_UP, [(1.0, RESTART), (61.0, TICK)], "stopping", [terminate(10)]),
        (ENGINE_UP, [(1.0, RESTART), (2.0, RESTART), (3.0, RUN)], "draining", []),
        (PLAIN_UP, [(1.0, RESTART)], "stopping", [terminate(10)]),
        (PLAIN_UP, [(1.0, RESTART), (2.0, exited(10))], "starting", [terminate(10), SPAWN]),
        (PLAIN_UP, [(1.0, RESTART), (11.0, TICK)], "stopping", [terminate(10), kill(10)]),
        # An engine that dies while it drains is started again, where it is to serve.
        (serving(replace(PLAIN, drain_s=60.0)), [(1.0, RESTART), (2.0, exited(10))], "starting", [SPAWN]),
        (ENGINE_UP, [(1.0, REST), (2.0, exited(10))], "stopped", []),
        # To make room it stops, or sleeps; a swap that is taken back finds it as it was.
        (ENGINE_UP, [(1.0, REST), (2.0, ev("drained")), (3.0, exited(10))], "stopped", [terminate(10)]),
        (ENGINE_UP, [(1.0, REST), (2.0, RUN)], "serving", []),
        (SLEEPER_UP, SLEEPING, "asleep", [Action("sleep", 10)]),
        (SLEEPER_UP, [*SLEEPING, (50.0, RUN)], "loading", [Action("sleep", 10), Action("wake", 10)]),
        (
            SLEEPER_UP,
            [*SLEEPING, (50.0, RUN), (51.0, answered(10))],
            "serving",
            [Action("sleep", 10), Action("wake", 10)],
        ),
        # Called back while it falls asleep: it wakes up again.
        (
            SLEEPER_UP,
            [*SLEEPING[:2], (3.0, RUN), SLEEPING[2]],
            "loading",
            [Action("sleep", 10), Action("wake", 10)],
        ),
        # One that cannot sleep must not hold the GPU's memory.
        (
            SLEEPER_UP,
            [*SLEEPING[:2], (3.0, ev("doomed", 10, "sleep: no")), (4.0, exited(10))],
            "stopped",
            [Action("sleep", 10), kill(10)],
        ),
        # A sleeper whose command is outdated is ended, and not started before it is wanted.
        (
            SLEEPER_UP,
            [*SLEEPING, (50.0, RESTART), (51.0, exited(10))],
            "stopped",
            [Action("sleep", 10), terminate(10)],
        ),
        (
            SLEEPER_UP,
            [*SLEEPING[:2], (3.0, RESTART), SLEEPING[2]],
            "stopping",
            [Action("sleep", 10), terminate(10)],
        ),
        (SLEEPER_UP, [*SLEEPING, (50.0, stop())], "stopping", [Action("sleep", 10), terminate(10)]),
        (SLEEPER_UP, [*SLEEPING, (50.0, exited(10))], "stopped", [Action("sleep", 10)]),
        # The start has its limit.
        (Service(BRIDGE), [(0.0, RUN), (0.0, spawned(10)), (19.0, TICK)], "starting", [SPAWN]),
        (Service(BRIDGE), [(0.0, RUN), (0.0, spawned(10)), (20.0, TICK)], "starting", [SPAWN, kill(10)]),
        # What cannot be started is a death like any other.
        (Service(PLAIN), [(0.0, RUN), (0.0, exited(None)), (0.5, TICK)], "starting", [SPAWN, SPAWN]),
        # A process that outlives a restart or a stop is killed, and so is what drains for too long.
        (ENGINE_UP, [(1.0, stop()), (4.0, TICK)], "stopping", [terminate(10), kill(10)]),
        (
            BRIDGE_UP,
            [(0.0, RESTART), (0.0, spawned(11)), (1.0, answered(11)), (900.0, TICK)],
            "serving",
            [terminate(10), SPAWN, kill(10)],
        ),
        # After a stop nothing is started.
        (ENGINE_UP, [(1.0, stop()), (2.0, exited(10)), (3.0, RUN), (4.0, RESTART)], "stopped", [terminate(10)]),
        (Service(ENGINE), [(0.0, RUN), (1.0, stop()), (2.0, ev("ready", 1))], "stopped", [Action("prepare", 1)]),
        # A stop during a restart wins over it.
        (
            PLAIN_UP,
            [(1.0, RESTART), (2.0, stop()), (3.0, exited(10))],
            "stopped",
            [terminate(10), terminate(10)],
        ),
        # Stopped is said only when the draining process is gone too.
        (
            BRIDGE_UP,
            [(1.0, RESTART), (1.0, spawned(11)), (2.0, stop()), (3.0, exited(11))],
            "stopping",
            [terminate(10), SPAWN, terminate(11)],
        ),
        (
            BRIDGE_UP,
            [(1.0, RESTART), (1.0, spawned(11)), (2.0, stop()), (3.0, exited(11)), (5.0, TICK), (5.1, exited(10))],
            "stopped",
            [terminate(10), SPAWN, terminate(11), kill(10)],
        ),
        # A stop while only the old process is left tells nobody else to end.
        (
            BRIDGE_UP,
            [(1.0, RESTART), (1.0, exited(None)), (1.2, REST), (2.0, stop())],
            "stopping",
            [terminate(10), SPAWN],
        ),
    ],
)
def test_histories(start: Service, history: History, phase: str, actions: list[Action]) -> None:
    service, asked = play(start, *history)
    assert (service.phase, asked) == (phase, actions)


def test_a_death_says_how_and_a_killing_says_why() -> None:
    killed, _ = play(BRIDGE_UP, *((float(at), silent(10, "no answer in 3 s")) for at in range(1, 3)))
    dead, _ = play(killed, (3.1, exited(10, "killed by SIGKILL")))
    assert dead.last_exit == "did not answer 2 probes in a row (no answer in 3 s)"
    assert play(BRIDGE_UP, (1.0, exited(10, "killed by SIGKILL")))[0].last_exit == "killed by SIGKILL"
    asked_for, _ = play(PLAIN_UP, (1.0, RESTART), (2.0, exited(10, "exit code 0")))
    assert (asked_for.last_exit, asked_for.starts) == (None, 2)
    refused, _ = play(Service(ENGINE), (0.0, RUN), (5.0, ev("refused", 1, "no GPU")))
    assert refused.last_exit == "no GPU"


def test_how_long_the_last_start_took() -> None:
    assert play(Service(BRIDGE), (5.0, RUN), (5.0, spawned(3)), (7.5, answered(3)))[0].took_s == 2.5
    assert play(SLEEPER_UP, *SLEEPING, (50.0, RUN), (51.4, answered(10)))[0].took_s == pytest.approx(1.4)


def test_the_engine_is_given_up_after_six_deaths_without_an_answer_and_an_order_forgives() -> None:
    service, _ = play(Service(PLAIN), (0.0, RUN))
    now, waits = 0.0, []
    for pid in range(100, 106):
        service, _ = play(service, (now, spawned(pid)), (now + 1, exited(pid, "exit code 1")))
        if service.phase == "backoff":
            waits.append(service.deadline - (now + 1))
            now = service.deadline
            service, _ = play(service, (now, TICK))
    assert (service.phase, service.starts, waits) == ("fatal", 6, [0.5, 0.5, 1.0, 2.0, 4.0])
    assert play(service, (1e6, TICK))[1] == []
    again, actions = play(service, (1e6, RUN))
    assert (again.phase, actions, again.barren) == ("starting", [SPAWN], 0)


def test_an_answer_in_between_keeps_the_engine_from_being_given_up() -> None:
    service = PLAIN_UP
    for pid in range(10, 40):
        now = pid * 100.0
        service = replace(service, phase="serving", pid=pid, since=now, deadline=math.inf)
        service, _ = play(service, (now, answered(pid)), (now + 1, exited(pid)), (now + 50, TICK))
        service, _ = play(service, (now + 50, spawned(pid + 1)), (now + 51, answered(pid + 1)))
        assert service.phase == "serving"


@settings(deadline=None)
@given(st.integers(1, 10_000))
def test_backoff_grows_to_its_ceiling(failures: int) -> None:
    assert 0.0 <= backoff_s(failures) <= backoff_s(failures + 1) <= 30.0


def test_the_table_has_every_state_and_nothing_else() -> None:
    assert set(TABLE) == set(STATES)
    events = {*NAMES, "due"} - {"tick"}
    assert {event for rows in TABLE.values() for event in rows} == events
    assert {row for rows in TABLE.values() for row in rows.values()} == set(machine._STEPS)


GOALS = {  # with which a state can be met; in the others it is to run
    "stopped": ("rest", "end"),
    "draining": ("run", "rest"),
    "stopping": ("run", "rest", "end"),
    "asleep": ("rest",),
    "fatal": ("run", "rest"),
}


def in_state(phase: ServiceState, policy: Policy, goal: typing.Any, pid: int | None, draining: bool) -> Service:
    alive = phase not in ("stopped", "preflight", "backoff", "fatal")
    old = {7: 500.0} if draining else {}
    return Service(policy, phase, 100.0, goal, (pid if alive else None), old, attempt=3, starts=3, begun=90.0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("phase", STATES)
def test_every_state_takes_every_event(phase: ServiceState, name: str) -> None:
    """Whatever comes: a known state, a pid exactly where a process lives, no spawn beside a process or after a stop."""
    policies, pids = (ENGINE, BRIDGE, SLEEPER), (7, 10, 3, None)
    goals = GOALS.get(phase, ("run",))
    for policy, goal, pid, draining in itertools.product(policies, goals, pids, (False, True)):
        before = in_state(phase, policy, goal, 10, draining and policy is BRIDGE)
        after, actions = step(before, ev(name, pid, "loading"), 200.0)
        assert after.phase in STATES
        began = [action for action in actions if action.do in ("spawn", "prepare", "wake")]
        assert len(began) <= 1
        assert not began or after.goal == "run"
        if after.pid is None:
            assert after.phase in ("stopped", "stopping", "preflight", "starting", "backoff", "fatal")
        if any(action.do == "spawn" for action in actions):
            assert after.pid is None
            assert after.phase == "starting"


@dataclass
class World:
    """The outside, as an adversary that keeps the contract: a spawn is answered at once, a process exits once."""

    service: Service
    now: float = 0.0
    broken: bool = False
    living: set[int] = field(default_factory=set)
    retired: set[int] = field(default_factory=set)
    killed: set[int] = field(default_factory=set)
    calls: list[tuple[str, int]] = field(default_factory=list)  # "sleep" and "wake" that were not answered yet
    next_pid: int = 1
    stopping: bool = False
    awake: bool = False  # does a process of it hold the GPU's memory

    def post(self, event: Event) -> None:
        self.service, actions = step(self.service, event, self.now)
        for action in actions:
            match action.do:
                case "spawn":
                    assert not self.stopping, "spawned after a stop"
                    assert action is actions[-1]
                    self.spawn()
                    return
                case "prepare":
                    assert not self.stopping, "prepared after a stop"
                    continue
                case "sleep" | "wake" as call:
                    self.calls.append((call, action.pid))
                    self.awake = True
                case "kill":
                    self.killed.add(action.pid)
                case "terminate" if self.service.policy.overlap_s and not self.stopping:
                    self.retired.add(action.pid)
            assert action.pid in self.living

    def spawn(self) -> None:
        if self.broken:
            self.post(exited(None, "no such file"))
            return
        self.living.add(self.next_pid)
        self.next_pid, self.awake = self.next_pid + 1, True
        assert len(self.living - self.retired) == 1, "two processes that do not drain"
        self.post(spawned(self.next_pid - 1))

    def do(self, choice: str, pick: int) -> None:
        pids = sorted(self.living)
        pid = pids[pick % len(pids)] if pids else 0
        match choice:
            case "stop":
                self.stopping = True
                self.post(stop())
            case "tick":
                self.now += pick / 4
                self.post(TICK)
            case "break" | "mend":
                self.broken = choice == "break"
            case "exit" if pids:
                self.exit(pid)
            case "exit":
                pass
            case "answer" | "fail" if self.calls:
                call, pid = self.calls.pop(0)
                good = ev("slept", pid) if call == "sleep" else answered(pid)
                self.awake = (call, choice) != ("sleep", "answer")
                self.post(good if choice == "answer" else ev("doomed", pid, "no"))
            case "ready" | "refused":
                self.post(ev(choice, self.service.attempt, "no GPU"))
            case "ok" | "answer":
                self.post(answered(pid))
            case _:
                self.post(ev("silent" if choice == "fail" else choice, pid, "downloading"))

    def exit(self, pid: int) -> None:
        self.living.discard(pid)
        self.awake = bool(self.living)
        self.calls = [call for call in self.calls if call[1] != pid]
        self.post(exited(pid, "exit code 1"))


CHOICES = (
    *("run", "run", "rest", "restart", "restart", "stop", "tick", "break", "mend", "exit", "ok", "ok", "fail"),
    *("answer", "ready", "ready", "refused", "seen", "doomed", "drained"),
)
scripts = st.lists(st.tuples(st.sampled_from(CHOICES), st.integers(0, 120)), max_size=80)
POLICIES = [BRIDGE, ENGINE, PLAIN, SLEEPER, replace(BRIDGE, max_deaths=3), replace(ENGINE, strikes=1)]


def ends(world: World) -> bool:
    """The rest of its life after a stop, in a world that is only fair: what was killed dies, and nothing else helps."""
    world.do("stop", 0)
    for _ in range(200):
        for pid in sorted(world.killed & world.living):
            world.exit(pid)
        world.do("tick", 4)
    return (world.service.phase, world.living) == ("stopped", set())


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(POLICIES), scripts)
def test_whatever_happens_one_process_at_most_no_spawn_after_a_stop_and_every_path_ends(
    policy: Policy, script: list[tuple[str, int]]
) -> None:
    world = World(Service(policy))
    for choice, pick in script:
        world.do(choice, pick)
    assert ends(world)


def test_a_million_random_events() -> None:
    """The same properties, in lives far longer than hypothesis tries."""
    dice = random.Random(4)
    choices = [choice for choice in CHOICES if choice != "stop"]
    seen = set()
    for policy in POLICIES:
        world = World(Service(policy))
        for choice in dice.choices(choices, k=170_000):
            world.do(choice, dice.randrange(8))
            seen.add(world.service.phase)
        assert ends(world)
    assert seen >= set(STATES) - {"stopping"}


@settings(deadline=None)
@given(st.lists(st.floats(0.0, 9.9), min_size=2, max_size=40), st.booleans())
def test_backoff_never_shrinks_while_no_run_is_good(lives: list[float], answers: bool) -> None:
    service, _ = play(Service(BRIDGE), (0.0, RUN))
    now, last = 0.0, 0.0
    for pid, life in enumerate(lives, start=1):
        service, _ = play(service, (now, spawned(pid)))
        if answers:
            service, _ = play(service, (now, answered(pid)))
        service, _ = play(service, (now + life, exited(pid)))
        wait = service.deadline - (now + life) if service.phase == "backoff" else 0.0
        assert wait >= last - 1e-9
        last, now = wait, now + life + wait
        if wait:
            service, _ = play(service, (now, TICK))


class Fleet:
    """Engines of several models in one world each, and a driver that steers them as the pod does."""

    def __init__(self, policy: Policy) -> None:
        self.worlds, self.wanted = {key: World(Service(policy)) for key in "abc"}, "a"

    def check(self) -> None:
        awake = [world.service for world in self.worlds.values() if world.awake]
        assert len(awake) <= 1, f"two engines are awake: {awake}"

    def step(self, choice: str, key: str, pick: int) -> None:
        if choice == "run":
            self.wanted = key
            if self.worlds[key].service.phase == "fatal":
                self.worlds[key].post(REST)
        elif choice not in ("rest", "stop"):
            self.worlds[key].do(choice, pick)
        self.check()
        if order := steer({each: world.service for each, world in self.worlds.items()}, self.wanted):
            self.worlds[order[0]].post(ev(order[1]))
        self.check()


@pytest.mark.parametrize("policy", [ENGINE, SLEEPER])
def test_never_two_engines_awake(policy: Policy) -> None:
    dice, fleet, woke = random.Random(7), Fleet(policy), set()
    for _ in range(60_000):
        fleet.step(dice.choice(CHOICES), dice.choice("abc"), dice.randrange(400))
        woke |= {key for key, world in fleet.worlds.items() if world.service.phase == "serving"}
    assert woke == set("abc")
