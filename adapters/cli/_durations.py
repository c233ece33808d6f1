"""Durations and moments, as people write them: 90, 1.5s, 5m, 2h, 1d; 2026-03-14T15:09."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import click

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)([smhd]?)")


def parse_duration(text: str) -> float | None:
    """Seconds, or None for what is no duration."""
    match = _DURATION.fullmatch(text.strip())
    return None if match is None else float(match[1]) * _UNITS[match[2]]


def parse_moment(text: str, now: datetime) -> datetime | None:
    """A time (in the local zone, where it names none), or as long ago as a duration says; None for neither."""
    seconds = parse_duration(text)
    try:
        if seconds is not None:
            return now - timedelta(seconds=seconds)
        return datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError):
        return None


def duration_of(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """An option's callback: seconds, more than 0."""
    if value is None:
        return None
    seconds = parse_duration(value)
    if not seconds:
        raise click.BadParameter("give a duration, more than 0: 90, 1.5s, 5m, 2h or 1d", ctx, param)
    return seconds


def grace_of(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """An option's callback: seconds, 0 too."""
    seconds = None if value is None else parse_duration(value)
    if value is not None and seconds is None:
        raise click.BadParameter("give a duration, from 0 on: 0, 1.5, 30s, 5m", ctx, param)
    return seconds


def moment_of(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
    """An option's callback: an aware datetime."""
    if value is None:
        return None
    moment = parse_moment(value, datetime.now().astimezone())
    if moment is None:
        raise click.BadParameter("give a duration (10m: ten minutes ago) or a time (2026-03-14T15:09)", ctx, param)
    return moment
