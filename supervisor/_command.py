"""What `start` is given, judged before anything is admitted, and turned into what can be launched.  Pure.

Each refusal names its field; none shows a value, since any of them may hold a secret.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from types import NoneType
from typing import Literal, Protocol, cast, final
from uuid import UUID

import attrs

from ..notifier import Owner
from ._errors import InvalidCommandError
from ._limits import Limits, ResourceLimits, TerminalSize
from .launch import Input, LaunchSpec, Survivors, Wishes

Command = str | Sequence[str]
EnvPolicy = Literal["minimal", "inherit", "none"]
OnOutputLimit = Literal["rotate", "stop"]

# What a program needs to behave as it would for the user: where things are, who it is, which language and time.
_MINIMAL = frozenset({"PATH", "HOME", "USER", "LANG", "TERM", "TMPDIR", "TZ"})

_SHELL = "/bin/sh"

# A name is one column of a table that people read.
MAX_NAME_CHARACTERS = 128


class HasOwner(Protocol):
    """Anything that processes can belong to, such as a loop."""

    @property
    def owner(self) -> Owner:
        """Who owns the processes that are started for it."""
        ...


@final
@attrs.frozen(kw_only=True)
class Order:
    """A request that has been judged; nothing of the command is shown by `repr`."""

    argv: tuple[str, ...] = attrs.field(repr=False)
    env: dict[str, str] = attrs.field(repr=False)
    cwd: str | None = attrs.field(repr=False)
    stdin: bytes | None = attrs.field(repr=False)
    program: str
    name: str
    owner: Owner
    origin_execution_id: UUID | None
    timeout: float | None
    background: bool
    survivors: Survivors
    output_limit: int
    on_output_limit: OnOutputLimit
    wishes: Wishes

    def spec(self, output_path: Path, given: Input | None) -> LaunchSpec:
        """What the launcher is given; `given` is what it reads from while it runs, if anything."""
        return LaunchSpec(
            argv=self.argv,
            env=self.env,
            cwd=self.cwd,
            stdin=self.stdin,
            resources=self.wishes.resources or ResourceLimits(),
            survivors=self.survivors,
            output_path=output_path,
            output_limit=self.output_limit,
            rotate=self.on_output_limit == "rotate",
            split_streams=self.wishes.split_streams,
            input=given,
        )


def judge_order(
    command: Command,
    *,
    owner: Owner | HasOwner,
    origin_execution_id: UUID | None,
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str] | None,
    env_policy: EnvPolicy,
    stdin: bytes | Literal["pipe"] | None,
    pty: TerminalSize | bool,
    timeout: float | None,
    background: bool,
    survivors: Survivors,
    name: str,
    split_streams: bool,
    output_limit: int | None,
    on_output_limit: OnOutputLimit,
    resources: ResourceLimits | None,
    limits: Limits,
    host_env: Mapping[str, str],
) -> Order:
    """All arguments of `start`, judged in this order.  Raises `InvalidCommandError` with the first that is wrong."""
    argv, program = _argv(command)
    _kind("background", background, bool, "must be True or False")
    _kind("split_streams", split_streams, bool, "must be True or False")
    _one_of("env_policy", env_policy, ("minimal", "inherit", "none"))
    _one_of("survivors", survivors, ("stop", "keep"))
    _one_of("on_output_limit", on_output_limit, ("rotate", "stop"))
    _kind("pty", pty, (bool, TerminalSize), "must be a bool or a TerminalSize")
    if split_streams and pty is not False:
        raise InvalidCommandError("split_streams", "a terminal has one stream for both; leave pty or split_streams out")
    if pty is not False and stdin is not None and not _is_pipe(stdin):
        raise InvalidCommandError("stdin", "a process with a terminal reads what is typed; use send_input")
    _kind("resources", resources, (ResourceLimits, NoneType), "must be ResourceLimits or None")
    _kind("origin_execution_id", origin_execution_id, (UUID, NoneType), "must be a UUID or None")
    if origin_execution_id is not None and not origin_execution_id.int:
        raise InvalidCommandError("origin_execution_id", "must not be the zero id; None mints one")
    if timeout is not None and not is_seconds(timeout):
        raise InvalidCommandError("timeout", "must be a positive number of seconds, or None for no limit")
    return Order(
        argv=argv,
        env=_environment(env, env_policy, host_env),
        cwd=_cwd(cwd),
        stdin=_stdin(stdin),
        program=program,
        name=_name(name),
        owner=owner_of(owner),
        origin_execution_id=origin_execution_id,
        timeout=timeout,
        background=background,
        survivors=survivors,
        output_limit=_output_limit(output_limit, limits),
        on_output_limit=on_output_limit,
        wishes=Wishes(
            terminal=TerminalSize() if pty is True else pty or None,
            input_pipe=_is_pipe(stdin) and pty is False,
            split_streams=split_streams,
            resources=resources,
        ),
    )


def owner_of(owner: Owner | HasOwner) -> Owner:
    """The owner itself, or that of a loop.  Raises `InvalidCommandError` for anything else."""
    found = owner if isinstance(owner, Owner) else getattr(owner, "owner", None)
    if not isinstance(found, Owner):
        raise InvalidCommandError("owner", "must be an Owner, or have one, as a loop has")
    if not (_is_id(found.session_id) and _is_id(found.loop_id)):
        raise InvalidCommandError("owner", "its session_id and loop_id must be UUIDs other than zero")
    return found


def _is_id(value: object) -> bool:
    return isinstance(value, UUID) and value.int != 0


def is_seconds(value: object, *, zero: bool = False) -> bool:
    """Whether `value` is a finite, positive number (`zero`: or 0)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    # Compared, not converted: an int may be larger than any float.
    return 0 < value <= sys.float_info.max or (zero and value == 0)


def _argv(command: object) -> tuple[tuple[str, ...], str]:
    """What is executed, and its base name: never the word of a shell command, which may be an assignment."""
    if isinstance(command, str):
        if not command:
            raise InvalidCommandError("command", "is empty; give a shell command or a sequence of arguments")
        return (_SHELL, "-c", _text("command", command)), "sh"
    if isinstance(command, (bytes, bytearray, memoryview)) or not isinstance(command, Sequence):
        raise InvalidCommandError("command", "must be a str (for /bin/sh -c) or a sequence of str (executed as given)")
    items = cast("Sequence[object]", command)
    argv = tuple(_text(f"argv[{index}]", item) for index, item in enumerate(items))
    if not argv:
        raise InvalidCommandError("command", "is empty; its first item is the program")
    if not argv[0]:
        raise InvalidCommandError("argv[0]", "is empty; it is the program")
    # A file's name may be no text (a lone surrogate stands for such a byte); what is stored and told is.
    return argv, PurePath(argv[0]).name.encode(errors="backslashreplace").decode()


def _text(field: str, value: object) -> str:
    """`value`, if the system can take it as an argument."""
    if not isinstance(value, str):
        raise InvalidCommandError(field, f"must be a str, not {type(value).__name__}")
    if "\0" in value:
        raise InvalidCommandError(field, "contains a NUL character, which no argument can carry")
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        raise InvalidCommandError(field, "cannot be encoded for this system (a lone surrogate)") from None
    return value


def _environment(env: object, policy: EnvPolicy, host: Mapping[str, str]) -> dict[str, str]:
    variables = host_variables(policy, host)
    if env is None:
        return variables
    _kind("env", env, Mapping, "must be a mapping of str to str, or None")
    for name, value in cast("Mapping[object, object]", env).items():
        if not isinstance(name, str):
            raise InvalidCommandError("env", f"names must be str, not {type(name).__name__}")
        # Only what stands before a forbidden character: the rest may be a value that was put there by mistake.
        field = f"env[{name.partition('=')[0].partition(chr(0))[0]}]"
        if not name or "=" in name or "\0" in name:
            raise InvalidCommandError(field, "a name must not be empty and not contain '=' or NUL")
        variables[_text(field, name)] = _text(field, value)
    return variables


def host_variables(policy: EnvPolicy, host: Mapping[str, str]) -> dict[str, str]:
    """The host's variables that the policy lets pass."""
    return {name: value for name, value in host.items() if _passes(name, policy)}


def _passes(name: str, policy: EnvPolicy) -> bool:
    return policy == "inherit" or (policy == "minimal" and (name in _MINIMAL or name.startswith("LC_")))


def _cwd(cwd: object) -> str | None:
    if cwd is None:
        return None
    path: object = os.fspath(cast("os.PathLike[str]", cwd)) if isinstance(cwd, os.PathLike) else cwd
    if not path:
        raise InvalidCommandError("cwd", "is empty; give a path, or None for the host's own")
    return _text("cwd", path)


def _is_pipe(stdin: object) -> bool:
    return isinstance(stdin, str) and stdin == "pipe"  # bytes are never compared with text: `python -bb` raises there


def _stdin(stdin: object) -> bytes | None:
    if stdin is None or _is_pipe(stdin):
        return None
    _kind("stdin", stdin, (bytes, bytearray, memoryview), 'must be None (nothing to read), bytes, or "pipe"')
    return bytes(cast("bytes", stdin))


def _name(name: object) -> str:
    if not isinstance(name, str) or len(name) > MAX_NAME_CHARACTERS or not (name.isprintable() or not name):
        raise InvalidCommandError("name", f"must be at most {MAX_NAME_CHARACTERS} printable characters")
    return name


def _output_limit(value: object, limits: Limits) -> int:
    if value is None:
        return limits.spool_bytes
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= limits.aggregate_spool_bytes:
        raise InvalidCommandError(
            "output_limit", f"must be from 1 to {limits.aggregate_spool_bytes} bytes (aggregate_spool_bytes)"
        )
    return value


def _kind(field: str, value: object, kinds: type | tuple[type, ...], why: str) -> None:
    if not isinstance(value, kinds):
        raise InvalidCommandError(field, why)


def _one_of(field: str, value: object, allowed: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise InvalidCommandError(field, f"must be one of {', '.join(allowed)}")
