"""`passerelle pod offers`: what there is to rent, and for how much."""

from __future__ import annotations

from typing import Any

import click

from control.cli import echo_json, run_async
from control.cli_options import Machine, machine_options
from control.cli_output import as_json_option
from control.models import Offer


@click.command()
@machine_options
@as_json_option
def offers(as_json: bool, **asked: Any) -> None:
    """What RunPod has now, cheapest first: GPU types, stock, price, CUDA versions, data centres.

    \b
    Example:
      passerelle pod offers --gpu a40 --gpu pro6000 --max-price 2
    """
    from control.providers import open_rented
    from control.runpod import gpus
    from control.runpod.offers import cheapest_first

    machine = Machine(**asked)
    provider = open_rented()
    found = run_async(provider.offers_of(machine.gpus, machine.clouds, machine.cuda, machine.min_cuda))
    wanted = gpus.exact(machine.gpu, [offer.gpu for offer in found]) if machine.gpu else None
    fitting = [
        offer
        for offer in cheapest_first(found)
        if (wanted is None or offer.gpu in wanted)
        and (machine.max_price is None or offer.per_hour <= machine.max_price)
    ]
    if as_json:
        echo_json(fitting)
        return
    click.echo(f"{'GPU':<16} {'GB':>4} {'$/H':>6}  {'STOCK':<6} {'CLOUD':<9} CUDA; DATA CENTRES")
    for offer in fitting:
        click.echo(_offer_line(offer))
    if not fitting:
        click.echo("nothing fits", err=True)


def _offer_line(offer: Offer) -> str:
    from control.runpod.gpus import short

    places = " ".join(offer.data_centers) or "-"
    return (
        f"{offer.count}×{short(offer.gpu):<14} {offer.memory_gb:>4} {offer.per_hour:>6.2f}  {offer.stock:<6} "
        f"{offer.cloud.lower():<9} {' '.join(offer.cuda) or '-'}; {places}"
    )


def register(pod: click.Group) -> None:
    """Add this verb to the group."""
    pod.add_command(offers)
