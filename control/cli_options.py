"""The options that say what a pod is made of: an embedded one, the machine of a rented one, what runs on it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from control.local.provider import DEFAULT_PRICE

IMAGE = "vllm/vllm-openai:v0.27.1"
"""The image that this version of the pod's code was tested on."""


@dataclass(frozen=True, slots=True)
class Machine:
    gpu: tuple[str, ...]
    gpus: int
    max_price: float | None
    community: bool
    cuda: tuple[str, ...]
    min_cuda: str | None

    @property
    def clouds(self) -> tuple[str, ...]:
        return ("SECURE", "COMMUNITY") if self.community else ("SECURE",)


def engine_options(command: click.decorators.FC) -> click.decorators.FC:
    """The options that say what an embedded pod is made of, the same for `pod create` and `demo`."""
    for option in (
        click.option(
            "--engine",
            type=click.Choice(["simulated", "vllm"]),
            default="simulated",
            show_default=True,
            help="The engine in the pod: a simulated one, or a real `vllm serve`.",
        ),
        click.option("--vllm", metavar="PATH", help="The vllm program; without it the one on PATH."),
        click.option("--config", type=click.Path(path_type=Path), help="A pod.toml (docs/config.md)."),
        click.option("--port", type=click.IntRange(1, 65535), help="The bridge's port; without it a free one."),
        click.option("--price", default=DEFAULT_PRICE, show_default=True, help="Dollars per hour to count."),
        click.option("--sim", multiple=True, metavar="FLAG", help="Flag of the simulated engine (docs/simulator.md)."),
    ):
        command = option(command)
    return command


def machine_options(command: click.decorators.FC) -> click.decorators.FC:
    """What machine is wanted: the same for `pod create` and `pod offers`."""
    for option in (
        click.option(
            "--gpu",
            "gpu",
            multiple=True,
            metavar="TYPE",
            help="a40, ada, pro6000, h200 …, or RunPod's exact id; several: the cheapest that fits.",
        ),
        click.option("--gpus", default=1, show_default=True, type=click.IntRange(1, 16), help="GPUs per pod."),
        click.option("--max-price", type=click.FloatRange(min=0.01), metavar="DOLLARS", help="Per hour, for the pod."),
        click.option("--community", is_flag=True, help="Take the community cloud too, not only the secure one."),
        click.option(
            "--cuda", multiple=True, metavar="VERSION", help="CUDA versions of the host to accept, exact: 12.8."
        ),
        click.option("--min-cuda", metavar="VERSION", help="The lowest CUDA version of the host to accept."),
    ):
        command = option(command)
    return command


def rented_options(command: click.decorators.FC) -> click.decorators.FC:
    """What a rented pod is made of."""
    for option in (
        click.option("--dc", multiple=True, metavar="ID", help="Data centres to try, in this order: EU-RO-1."),
        click.option("--image", metavar="NAME", help=f"Container image; {IMAGE} unless a template is named."),
        click.option("--template", metavar="ID", help="A template of RunPod's instead of an image."),
        click.option("--args", metavar="LINE", help="The container's command, in place of ours."),
        click.option("--disk", type=click.IntRange(1), metavar="GB", help="Container disk.  [default: 150]"),
        click.option("--volume", type=click.IntRange(10), metavar="GB", help="A volume that survives a stop."),
        click.option("--network-volume", metavar="ID", help="A network volume that exists."),
        click.option("--mount", metavar="PATH", help="Where the volume is.  [default: /workspace]"),
        click.option(
            "--env",
            "env",
            multiple=True,
            metavar="NAME[=VALUE]",
            help="A variable for the pod; without a value, yours of that name.",
        ),
        click.option("--registry", metavar="ID", help="RunPod's id of a registry credential, for a private image."),
        click.option(
            "--hub",
            metavar="STORE",
            help="Where its configuration is: hf://datasets/owner/name.  [default: as set by init]",
        ),
        click.option("--name", metavar="WORD", help="Beginning of its name."),
        click.option("--like", metavar="POD", help="Made of the same as that rented pod, on another machine."),
        click.option("--budget", type=click.FloatRange(min=0.01), metavar="DOLLARS", help="What it may spend in all."),
        click.option("--no-wait", is_flag=True, help="Return once it is rented, before it serves."),
    ):
        command = option(command)
    return command


def pod_options(command: click.decorators.FC) -> click.decorators.FC:
    """Everything that a pod can be made of: the same for `pod create` and `fleet up`."""
    provider = click.option(
        "--provider",
        type=click.Choice(["local", "runpod"]),
        default="local",
        show_default=True,
        help="local: on this machine, for trying; runpod: rented by the second.",
    )
    return provider(rented_options(machine_options(engine_options(command))))
