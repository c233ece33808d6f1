"""`lastword doctor`: what this machine can prove."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ._print import json_option, print_json

if TYPE_CHECKING:
    from ...supervisor import Diagnosis


@click.command(short_help="Say how strongly this machine holds jobs.")
@json_option
def doctor(as_json: bool) -> None:
    """Say how strongly this machine holds jobs, what it can prove of them, and what is missing for more.

    \b
      lastword doctor
      lastword doctor --json | jq 'select(.strongest)'
    """
    from ...supervisor import doctor as diagnose

    diagnosis = diagnose()
    if as_json:
        for tier in tiers_of(diagnosis):
            print_json(tier)
    else:
        click.echo(diagnosis.render())


def tiers_of(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """An object for each tier, the strongest first."""
    return [
        {
            "containment": tier.containment.name.lower(),
            "available": tier.available,
            "strongest": tier.containment is diagnosis.strongest,
            "proven": tier.containment.proven,
            "proof": tier.proof,
            "code": tier.code,
            "why": tier.why,
        }
        for tier in diagnosis.tiers
    ]
