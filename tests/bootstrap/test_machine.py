"""Histories as tables, completeness of the table, and properties over any order of events."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bootstrap.events import (
    Action,
    Event,
    Exited,
    HealthFailed,
    HealthOk,
    Kill,
    Report,
    RestartRequested,
    Retire,
    Spawn,
    Spawned,
    SpawnFailed,
    StartRequested,
    StopRequested,
    Terminate,
    Tick,
)
from bootstrap.machine import TRANSITIONS, step
from bootstrap.report import ServiceState
from bootstrap.service import BRIDGE, ENGINE, Policy, Service, backoff_s


def play(service: Service, *history: tuple[float, Event]) -> tuple[Service, list[Action]]:
    """Feed a history; the last state, and all actions but reports."""
    actions: list[Action] = []
    for now, event in history:
        service, asked = step(service, event, now)
        actions += [action for action in asked if not isinstance(action, Report)]
    return service, actions


def serving(name: str, policy: Policy, pid: int = 10, at: float = 0.0) -> Service:
    service, _ = play(Service(name, policy), (at, StartRequested()), (at, Spawned(pid)), (at, HealthOk(pid)))
    assert service.phase == "serving"
    return service


ENGINE_UP = serving("engine", ENGINE)
BRIDGE_UP = serving("bridge", BRIDGE)


def test_every_pair_of_phase_and_event_is_in_the_table() -> None:
    assert set(TRANSITIONS) == set(get_args(ServiceState))
    for phase, row in TRANSITIONS.items():
        assert set(row) == set(get_args(Event)), phase


@pytest.mark.parametrize(
    ("start", "history", "phase", "actions"),
    [
        (Service("engine", ENGINE), [(0.0, StartRequested())], "starting", [Spawn()]),
        # A good run that ends is started again at once.
        (ENGINE_UP, [(60.0, Exited(10, "exit code 1"))], "starting", [Spawn()]),
        # So is the first death ever, however early; the second waits.
        (BRIDGE_UP, [(1.0, Exited(10, "x"))], "starting", [Spawn()]),
        (BRIDGE_UP, [(1.0, Exited(10, "x")), (1.0, Spawned(11)), (2.0, Exited(11, "x"))], "backoff", [Spawn()]),
        # One failed probe is forgiven, two of the bridge are not; those of the engine only get reported.
        (BRIDGE_UP, [(1.0, HealthFailed(10, "t")), (2.0, HealthOk(10)), (3.0, HealthFailed(10, "t"))], "serving", []),
        (BRIDGE_UP, [(1.0, HealthFailed(10, "t")), (2.0, HealthFailed(10, "t"))], "serving", [Kill(10)]),
        (ENGINE_UP, [(float(at), HealthFailed(10, "t")) for at in range(1, 99)], "serving", []),
        # A probe that was meant for another process says nothing of this one.
        (BRIDGE_UP, [(1.0, HealthFailed(9, "t")), (2.0, HealthFailed(9, "t"))], "serving", []),
        # Restart: the bridge's old process drains while the new one starts; the engine's must be gone first.
        (BRIDGE_UP, [(1.0, RestartRequested())], "starting", [Retire(10), Spawn()]),
        (ENGINE_UP, [(1.0, RestartRequested())], "stopping", [Terminate(10)]),
        (ENGINE_UP, [(1.0, RestartRequested()), (2.0, Exited(10, "x"))], "starting", [Terminate(10), Spawn()]),
        (ENGINE_UP, [(1.0, RestartRequested()), (11.0, Tick())], "stopping", [Terminate(10), Kill(10)]),
        (ENGINE_UP, [(1.0, RestartRequested()), (2.0, RestartRequested())], "stopping", [Terminate(10)]),
        # The start has its limit.
        (
            Service("bridge", BRIDGE),
            [(0.0, StartRequested()), (0.0, Spawned(10)), (19.0, Tick())],
            "starting",
            [Spawn()],
        ),
        (
            Service("bridge", BRIDGE),
            [(0.0, StartRequested()), (0.0, Spawned(10)), (20.0, Tick())],
            "starting",
            [Spawn(), Kill(10)],
        ),
        # A stop that meets a spawn in flight terminates what comes of it.
        (
            Service("engine", ENGINE),
            [(0.0, StartRequested()), (0.0, StopRequested(3.0)), (0.0, Spawned(10))],
            "stopping",
            [Spawn(), Terminate(10)],
        ),
        (
            Service("engine", ENGINE),
            [(0.0, StartRequested()), (0.0, StopRequested(3.0)), (0.0, SpawnFailed("x"))],
            "stopped",
            [Spawn()],
        ),
        # A stop during a restart wins over it.
        (
            ENGINE_UP,
            [(1.0, RestartRequested()), (2.0, StopRequested(3.0)), (3.0, Exited(10, "x"))],
            "stopped",
            [Terminate(10)],
        ),
        # Stopped is said only when the draining process is gone too.
        (
            BRIDGE_UP,
            [(1.0, RestartRequested()), (1.0, Spawned(11)), (2.0, StopRequested(3.0)), (3.0, Exited(11, "x"))],
            "stopping",
            [Retire(10), Spawn(), Terminate(11)],
        ),
        (
            BRIDGE_UP,
            [
                (1.0, RestartRequested()),
                (1.0, Spawned(11)),
                (2.0, StopRequested(3.0)),
                (3.0, Exited(11, "x")),
                (5.0, Tick()),
                (5.1, Exited(10, "x")),
            ],
            "stopped",
            [Retire(10), Spawn(), Terminate(11), Kill(10)],
        ),
        # A process that nobody asked for does not live beside ours.
        (BRIDGE_UP, [(1.0, Spawned(99))], "serving", [Kill(99)]),
    ],
)
def test_histories(start: Service, history: list[tuple[float, Event]], phase: str, actions: list[Action]) -> None:
    service, asked = play(start, *history)
    assert (service.phase, asked) == (phase, actions)


def test_a_death_says_how_and_a_killing_says_why() -> None:
    killed, _ = play(
        BRIDGE_UP, (1.0, HealthFailed(10, "no answer in 2 s")), (2.0, HealthFailed(10, "no answer in 2 s"))
    )
    dead, _ = play(killed, (2.1, Exited(10, "killed by SIGKILL")))
    assert dead.last_exit == "did not answer 2 probes in a row (no answer in 2 s)"
    assert play(BRIDGE_UP, (1.0, Exited(10, "killed by SIGKILL")))[0].last_exit == "killed by SIGKILL"
    asked_for, _ = play(ENGINE_UP, (1.0, RestartRequested()), (2.0, Exited(10, "exit code 0")))
    assert (asked_for.last_exit, asked_for.restarts) == (None, 1)


def test_the_engine_is_given_up_after_six_deaths_without_an_answer_and_a_restart_by_hand_forgives() -> None:
    service, _ = play(Service("engine", ENGINE), (0.0, StartRequested()))
    now, waits = 0.0, []
    for pid in range(100, 106):
        service, _ = play(service, (now, Spawned(pid)), (now + 1, Exited(pid, "exit code 1")))
        if service.phase == "backoff":
            assert service.deadline is not None
            waits.append(service.deadline - (now + 1))
            now = service.deadline
            service, _ = play(service, (now, Tick()))
    assert (service.phase, service.restarts, waits) == ("fatal", 5, [0.5, 1.0, 2.0, 4.0])
    assert play(service, (1e6, Tick()), (1e6, StartRequested()))[1] == []
    again, actions = play(service, (1e6, RestartRequested()))
    assert (again.phase, actions, again.barren) == ("starting", [Spawn()], 0)


def test_an_answer_in_between_keeps_the_engine_from_being_given_up() -> None:
    service = ENGINE_UP
    for pid in range(10, 40):
        now = pid * 100.0
        service = replace(service, phase="serving", pid=pid, since=now, deadline=None)
        service, _ = play(service, (now, HealthOk(pid)), (now + 1, Exited(pid, "x")), (now + 50, Tick()))
        service, _ = play(service, (now + 50, Spawned(pid + 1)), (now + 51, HealthOk(pid + 1)))
        assert service.phase == "serving"


@settings(deadline=None)
@given(st.integers(1, 10_000))
def test_backoff_grows_to_its_ceiling(failures: int) -> None:
    assert 0.0 <= backoff_s(failures) <= backoff_s(failures + 1) <= 30.0


@dataclass
class World:
    """The outside, as an adversary that keeps the contract: one reply per Spawn, one Exited per process."""

    service: Service
    now: float = 0.0
    spawns: int = 0
    living: set[int] = field(default_factory=set)
    retired: set[int] = field(default_factory=set)
    killed: set[int] = field(default_factory=set)
    next_pid: int = 1
    stopping: bool = False

    def post(self, event: Event) -> None:
        self.service, actions = step(self.service, event, self.now)
        for action in actions:
            match action:
                case Spawn():
                    assert not self.stopping, "spawned after StopRequested"
                    self.spawns += 1
                case Kill(pid):
                    assert pid in self.living
                    self.killed.add(pid)
                case Terminate(pid):
                    assert pid in self.living
                case Retire(pid):
                    assert pid in self.living
                    self.retired.add(pid)
                case Report():
                    pass
        assert self.spawns + len(self.living - self.retired) <= 1, "two processes that do not drain"

    def do(self, choice: str, pick: int) -> None:
        pids = sorted(self.living)
        pid = pids[pick % len(pids)] if pids else 0
        match choice:
            case "start":
                self.post(StartRequested())
            case "restart":
                self.post(RestartRequested())
            case "stop":
                self.stopping = True
                self.post(StopRequested(3.0))
            case "tick":
                self.now += pick / 4
                self.post(Tick())
            case "spawned" if self.spawns:
                self.spawns -= 1
                self.living.add(self.next_pid)
                self.next_pid += 1
                self.post(Spawned(self.next_pid - 1))
            case "spawn failed" if self.spawns:
                self.spawns -= 1
                self.post(SpawnFailed("no such file"))
            case "exit" if pids:
                self.exit(pid)
            case "ok":
                self.post(HealthOk(pid))
            case "failed":
                self.post(HealthFailed(pid, "no answer"))

    def exit(self, pid: int) -> None:
        self.living.discard(pid)
        self.post(Exited(pid, "exit code 1"))


CHOICES = ("start", "restart", "stop", "tick", "spawned", "spawned", "spawn failed", "exit", "ok", "ok", "failed")
scripts = st.lists(st.tuples(st.sampled_from(CHOICES), st.integers(0, 120)), max_size=80)
policies = st.sampled_from([BRIDGE, ENGINE, replace(BRIDGE, max_deaths=3), replace(ENGINE, failed_probes=1)])


@settings(max_examples=400, deadline=None)
@given(policies, scripts)
def test_whatever_happens_one_process_at_most_no_spawn_after_a_stop_and_ticks_lead_to_stopped(
    policy: Policy, script: list[tuple[str, int]]
) -> None:
    world = World(Service("it", policy))
    for choice, pick in script:
        world.do(choice, pick)
    world.do("stop", 0)
    # From here on the world is only fair: a spawn is answered, and what was killed dies. Nothing else helps.
    for _ in range(200):
        world.do("spawned", 0)
        for pid in sorted(world.killed & world.living):
            world.exit(pid)
        world.do("tick", 4)
    assert (world.service.phase, world.living, world.spawns) == ("stopped", set(), 0)


@settings(deadline=None)
@given(st.lists(st.floats(0.0, 9.9), min_size=2, max_size=40), st.booleans())
def test_backoff_never_shrinks_while_no_run_is_good(lives: list[float], answers: bool) -> None:
    service, _ = play(Service("bridge", BRIDGE), (0.0, StartRequested()))
    now, last = 0.0, 0.0
    for pid, life in enumerate(lives, start=1):
        service, _ = play(service, (now, Spawned(pid)))
        if answers:
            service, _ = play(service, (now, HealthOk(pid)))
        service, _ = play(service, (now + life, Exited(pid, "x")))
        wait = (service.deadline or 0.0) - (now + life) if service.phase == "backoff" else 0.0
        assert wait >= last - 1e-9
        last, now = wait, now + life + wait
        if wait:
            service, _ = play(service, (now, Tick()))
