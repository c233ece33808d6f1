"""The C library's posix_spawn, for a job that needs no more than that can do.

The child borrows this process's memory until it executes, where a fork would copy the tables of its pages, and have
every page that either writes to copied: half of what a start costs, and a part of what an end does.

Rules
- Not Python's own: that refuses to reset the two signals that the C library keeps for itself, and the library leaves
  them ignored, as this process ignores every signal.  The set that says which are reset is filled in here.
- It cannot say which step has failed.  So whatever it refuses is done again by a fork, which can.
- Where the library lacks something, every job is forked.
"""

from __future__ import annotations

import ctypes
import os

from ._exec import candidates

TYPE_CHECKING = False  # `typing` would cost the zygote's start
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._exec import Spec

# <spawn.h>, of glibc and musl alike.
_SETSIGDEF = 0x04
_SETSIGMASK = 0x08
_SETSID = 0x80

# More than the opaque structures and the set of signals have anywhere (336, 80 and 128 bytes).
_ROOM_BYTES = 1024

# The kernel has 64 signals; what the set holds beyond that means nothing.
_ALL_SIGNALS = b"\xff" * 8

# PyDLL keeps the interpreter's lock, which there is nobody to be given to.
_library = ctypes.PyDLL(None)


def _attributes() -> ctypes.Array[ctypes.c_char]:
    """A session of its own, every signal at its default and none blocked.  Raises OSError, AttributeError."""
    attributes = ctypes.create_string_buffer(_ROOM_BYTES)
    every = ctypes.create_string_buffer(_ALL_SIGNALS, _ROOM_BYTES)
    none = ctypes.create_string_buffer(_ROOM_BYTES)
    _check(_library.posix_spawnattr_init(attributes))
    _check(_library.posix_spawnattr_setsigdefault(attributes, every))
    _check(_library.posix_spawnattr_setsigmask(attributes, none))
    _check(_library.posix_spawnattr_setflags(attributes, ctypes.c_short(_SETSIGDEF | _SETSIGMASK | _SETSID)))
    return attributes


def _check(number: int) -> None:
    if number:
        raise OSError(number, "posix_spawn")


def _words(words: Sequence[bytes]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * (len(words) + 1))(*words)


try:
    _ATTRIBUTES = _attributes()  # once, by the zygote, for all shims
    for _name in ("init", "adddup2", "addfchdir_np", "addchdir_np", "destroy"):
        getattr(_library, f"posix_spawn_file_actions_{_name}")
    usable = True
    """Whether the C library has it all."""
except (AttributeError, OSError):  # an older one
    usable = False


def spawn_at_once(spec: Spec, cwd: int, streams: tuple[int, ...]) -> int | None:
    """Execute the program of a job that needs a session, a folder, a umask and its streams; the leader's pid.

    None where that was refused, for whatever reason: then nothing was begun.
    """
    env = dict(spec.env)
    words = [name + b"=" + value for name, value in env.items()]
    program = _found(spec.argv[0], env)
    # What no environment and no argument can be is the fork's to refuse.
    if not usable or program is None or any(map(_is_no_name, env)) or any(map(_has_zero, (*words, *spec.argv))):
        return None
    own = None if spec.umask is None else os.umask(spec.umask)
    try:
        return _posix_spawn(program, spec.argv, words, (cwd, spec.cwd), streams)
    except OSError:
        return None
    finally:
        if own is not None:
            os.umask(own)


def _found(program: bytes, env: dict[bytes, bytes]) -> bytes | None:
    """The first candidate that is there, whatever it is; None where only the job, in its folder, can know."""
    if b"/" in program:
        return program
    for candidate in candidates(program, env):
        if not candidate.startswith(b"/"):
            return None
        try:
            os.stat(candidate)  # noqa: PTH116 -- no pathlib here
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError):
            return None
        return candidate
    return None


def _is_no_name(name: bytes) -> bool:
    return not name or b"=" in name


def _has_zero(word: bytes) -> bool:
    return b"\0" in word


def _posix_spawn(
    program: bytes,
    argv: Sequence[bytes],
    env: Sequence[bytes],
    folders: tuple[int, bytes | None],
    streams: Sequence[int],
) -> int:
    """The child's pid; `folders`: where it works, and a path from there.  Raises OSError."""
    base, path = folders
    actions = ctypes.create_string_buffer(_ROOM_BYTES)
    _check(_library.posix_spawn_file_actions_init(actions))
    try:
        for target, source in enumerate(streams):
            _check(_library.posix_spawn_file_actions_adddup2(actions, source, target))
        _check(_library.posix_spawn_file_actions_addfchdir_np(actions, base))
        if path is not None:
            _check(_library.posix_spawn_file_actions_addchdir_np(actions, path))
        pid = ctypes.c_int()
        _check(_library.posix_spawn(ctypes.byref(pid), program, actions, _ATTRIBUTES, _words(argv), _words(env)))
        return pid.value
    finally:
        _library.posix_spawn_file_actions_destroy(actions)
