"""`passerelle pod create`: a pod on this machine, or one that is rented."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from control.cli import run_async
from control.cli_options import IMAGE, Machine, pod_options
from control.cli_output import as_json_option, dry_run_option, say
from control.cli_pod import pod, until_serving
from control.errors import UsageError
from control.local.provider import LocalProvider, Options
from control.models import Pod

if TYPE_CHECKING:
    from control.runpod.offers import Attempt
    from control.runpod.order import Order
    from control.runpod.provider import RunPodProvider

PASSED_ON = ("VL_", "HF_ENDPOINT")
"""Variables that begin so are handed to the pod: the first override its pod.toml, the other is where its Hub is."""


MACHINE = ("gpu", "gpus", "max_price", "community", "cuda", "min_cuda")
EMBEDDED = ("engine", "vllm", "config", "port", "price", "sim")


@pod.command()
@pod_options
@as_json_option
@dry_run_option
@click.pass_context
def create(context: click.Context, /, provider: str, as_json: bool, dry_run: bool, **asked: Any) -> None:
    """Make a pod and start it.

    \b
    Examples:
      passerelle pod create                                     embedded, with a simulated engine
      passerelle pod create --engine vllm --config pod.toml     embedded, with a real one
      passerelle pod create --provider runpod --config pod.toml --gpu a40 --gpu ada --max-price 0.8 --budget 5
      passerelle pod create --provider runpod --gpu h200 --dry-run
    """
    if asked["like"] and context.get_parameter_source("provider") is click.core.ParameterSource.DEFAULT:
        provider = "runpod"
    only_for(context, provider, "pod create")
    if provider == "local":
        _embedded(Options(**{name: asked[name] for name in EMBEDDED}), as_json, dry_run)
        return
    from control.providers import open_rented

    made = run_async(rent(open_rented(), asked, dry_run))
    if made is not None:
        _said(made, as_json)


def only_for(context: click.Context, provider: str, verb: str, both: tuple[str, ...] = ()) -> None:
    """Raises UsageError for an option that the provider would have to ignore. `both` are for either."""
    for option in context.command.params:
        name = option.name or ""
        embedded = name in EMBEDDED
        if name in ("provider", "config", "as_json", "dry_run", *both) or embedded == (provider == "local"):
            continue
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            other = "local" if embedded else "runpod"
            raise UsageError(f"{option.opts[0]} is for --provider {other}", f"passerelle {verb} --provider {other} …")


def _embedded(options: Options, as_json: bool, dry_run: bool) -> None:
    if dry_run:
        click.echo(f"would start bootstrap, bridge and a {options.engine} engine on this machine; nothing is rented")
        return
    made = run_async(LocalProvider().create(options))
    say(made, as_json, f"pod {made.id} runs at {made.url}; watch it: passerelle watch {made.id}")


async def rent(provider: RunPodProvider, asked: dict[str, Any], dry_run: bool) -> Pod | None:
    """Rent one pod, its configuration published before it costs; None when that was only shown."""
    from control.desk import publish_first
    from control.hub import below
    from control.keys import HUGGING_FACE, Keys, fresh_tokens
    from control.runpod import launch

    order = await _order(provider, asked)
    name, tokens = launch.unique_name(order.label), fresh_tokens()
    if order.hub:
        order = replace(order, hub=below(order.hub, name))
    order = launch.with_env(order, tokens, Keys().get(HUGGING_FACE), await _public_keys())
    text = await _config(asked)
    planned = await provider.plan(order)
    if dry_run:
        _show_requests(provider, order, planned, name, published=text is not None)
        return None
    account = await provider.account()
    if account.balance is None:
        click.echo(f"balance: -  ({account.reason})", err=True)
    launch.check_funds(account, planned[0].offer)
    click.echo(f"the pod will be called {name}", err=True)
    if order.hub and text is not None:
        await publish_first(order.hub, text, tokens.operator)
        click.echo(f"its configuration and code are published to {order.hub}", err=True)
    made = await provider.create(order, planned, name, lambda line: click.echo(line, err=True))
    click.echo(f"rented: pod {made.id} ({name}), {made.price.per_hour:.2f} $/h from now on", err=True)
    if order.hub and text is None:
        click.echo(f"it waits for its configuration: passerelle config publish pod.toml --pod {made.id}", err=True)
    if not asked["no_wait"]:
        made = await until_serving(provider, made.id, None)
    return made


async def _public_keys() -> tuple[str, ...]:
    """The operator's; without one it is said, since SSH is the way to a pod whose bridge hangs."""
    from control import settings, ssh_keys

    found = await ssh_keys.public_lines(settings.load().identity())
    if not found:
        click.echo(
            "no SSH key of yours is known here: only the keys of your RunPod account are let in"
            " (passerelle init --new-ssh-key)",
            err=True,
        )
    return found


async def _config(asked: dict[str, Any]) -> str | None:
    """The pod.toml that is to be there before the pod is: the one that was named, or that of the pod it is like."""
    from control import draft
    from control.cli_config import read
    from control.desk import published_text

    if asked["config"] is not None:
        text = read(asked["config"])
        draft.check(text, str(asked["config"]))
        return text
    return await published_text(asked["like"]) if asked["like"] else None


def _said(made: Pod, as_json: bool) -> None:
    say(
        made,
        as_json,
        f"pod {made.id} is at {made.url}; watch it: passerelle watch {made.id}; its end: passerelle pod stop",
    )


async def _order(provider: RunPodProvider, asked: dict[str, Any]) -> Order:
    from control import launch_args, settings
    from control.providers import find
    from control.runpod import gpus
    from control.runpod.order import Order

    machine = Machine(**{name: asked[name] for name in MACHINE})
    wanted = gpus.exact(machine.gpu, await _catalogue(provider, machine)) if machine.gpu else ()
    said = {
        "count": machine.gpus,
        "clouds": machine.clouds,
        "data_centers": tuple(dc.upper() for dc in asked["dc"]),
        "max_price": machine.max_price,
        "image": asked["image"],
        "template": asked["template"],
        "args": asked["args"],
        "disk_gb": asked["disk"],
        "volume_gb": asked["volume"],
        "network_volume": asked["network_volume"],
        "mount": asked["mount"],
        "cuda": machine.cuda,
        "min_cuda": machine.min_cuda,
        "registry": asked["registry"],
        "hub": asked["hub"] or settings.load().hub,
        "label": asked["name"],
        "budget": asked["budget"],
    }
    given = {key: value for key, value in said.items() if value not in (None, ())}
    if asked["like"]:
        like = await provider.order_like((await find(asked["like"]))[1].id, wanted)
        given.pop("count") if machine.gpus == 1 else None
        given.pop("clouds") if not machine.community else None
        env = dict(like.env) | dict(variables(asked["env"]))
        return replace(like, **given, env=tuple(env.items()))
    if not (asked["image"] or asked["template"]):
        given["image"] = IMAGE
    if not (asked["args"] or asked["template"]):
        _need_hub(given.get("hub"))
        given |= {"entrypoint": launch_args.ENTRYPOINT, "cmd": launch_args.command()}
    return Order(gpus=wanted, env=variables(asked["env"]), **given)


def _need_hub(hub: object) -> None:
    """Raises UsageError: our start command fetches the pod's code and configuration from there, and has no other."""
    if not hub:
        raise UsageError(
            "a rented pod fetches its code and configuration from the Hub, and no store is set",
            "passerelle init sets it; --hub hf://datasets/owner/name for this pod; --args for a command of your own",
        )


def variables(named: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """PASSED_ON of ours, and those that were named: NAME takes our value, so that no secret is on the command line."""
    found = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
    for word in named:
        name, given, value = word.partition("=")
        if not given and name not in os.environ:
            raise UsageError(f"--env {name}: there is no such variable here", f"--env {name}=VALUE, or set it first")
        found[name] = value if given else os.environ[name]
    return tuple(found.items())


async def _catalogue(provider: RunPodProvider, machine: Machine) -> tuple[str, ...]:
    return tuple(
        offer.gpu for offer in await provider.offers_of(machine.gpus, machine.clouds, machine.cuda, machine.min_cuda)
    )


def _show_requests(
    provider: RunPodProvider, order: Order, planned: tuple[Attempt, ...], name: str, *, published: bool
) -> None:
    from control.keys import masked
    from control.runpod.launch import secrets_in

    if order.hub and published:
        click.echo(f"first, pod.toml and the pod's code are published to {order.hub}; then:\n")
    click.echo(f"POST {provider.access.api}/v2/pods\nauthorization: Bearer •••")
    body = json.dumps(provider.request(order, planned[0], name), indent=2, ensure_ascii=False)
    click.echo(masked(body, (provider.access.key, *secrets_in(order))))
    click.echo(f"\nin this order, until one has room ({len(planned)}):")
    for attempt in planned:
        click.echo(f"  {attempt}, stock {attempt.offer.stock}")


def register(cli: click.Group) -> None:
    """Add the verbs of `pod` to the command."""
    from control import cli_offers

    cli_offers.register(pod)
    cli.add_command(pod)
