"""What the process and the machine tell a traced function, and no guard asks for again: `lamina.checks` tells of it."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

from lamina._read_set import Unseen

# Modules whose functions give another value at each call.
_ANEW = frozenset(("random", "_random", "time", "secrets", "uuid"))
_STREAMS = ("TextIOWrapper", "BufferedReader", "BufferedRandom", "FileIO", "StringIO", "BytesIO")
# So do these functions, by their module: they read the clock, a file, or what somebody types.
_READ: dict[str, frozenset[str]] = {
    "datetime": frozenset(("datetime.now", "datetime.utcnow", "datetime.today", "date.today")),
    "io": frozenset(("open", "open_code")),
    "builtins": frozenset(("input",)),
    "pathlib": frozenset(("Path.open", "Path.read_text", "Path.read_bytes")),
    "numpy": frozenset(("load", "loadtxt", "genfromtxt", "fromfile", "memmap")),
    "_io": frozenset(
        f"{t}.{name}" for t in _STREAMS for name in ("read", "readline", "readlines", "read1", "readinto")
    ),
    "queue": frozenset(("Queue.get", "Queue.get_nowait", "SimpleQueue.get", "SimpleQueue.get_nowait")),
    "_queue": frozenset(("SimpleQueue.get", "SimpleQueue.get_nowait")),
    "posix": frozenset(("read", "stat", "urandom")),
    "nt": frozenset(("read", "stat", "urandom")),
}
# Functions that tell a state, by their module: asked again, they tell whether it has changed.
_TOLD: dict[str, frozenset[str]] = {
    "_io": frozenset(("StringIO.getvalue", "BytesIO.getvalue", "StringIO.tell", "BytesIO.tell")),
    "queue": frozenset(("Queue.qsize", "Queue.empty", "Queue.full")),
    "_queue": frozenset(("SimpleQueue.qsize", "SimpleQueue.empty")),
    "numpy": frozenset(("geterr", "geterrcall", "get_printoptions", "getbufsize")),
    "logging": frozenset(
        (
            *("Logger.isEnabledFor", "Logger.getEffectiveLevel", "Logger.hasHandlers", "getLevelName"),
            *("LoggerAdapter.isEnabledFor", "LoggerAdapter.getEffectiveLevel", "LoggerAdapter.hasHandlers"),
        )
    ),
    "posix": frozenset(("getcwd", "getcwdb", "listdir", "access", "cpu_count", "getpid")),
    "nt": frozenset(("getcwd", "getcwdb", "listdir", "access", "cpu_count", "getpid")),
    "genericpath": frozenset(("exists", "isfile", "isdir", "getsize", "getmtime")),
    "posixpath": frozenset(("lexists", "ismount", "islink", "expanduser", "abspath", "realpath")),
    "ntpath": frozenset(("lexists", "ismount", "islink", "expanduser", "abspath", "realpath")),
    "pathlib": frozenset(("Path.exists", "Path.is_file", "Path.is_dir", "Path.cwd", "Path.home")),
    "locale": frozenset(("getlocale", "localeconv")),
    "_locale": frozenset(("localeconv",)),
    "gc": frozenset(("isenabled", "get_threshold", "get_debug")),
    "sys": frozenset(("getrecursionlimit", "getswitchinterval", "gettrace", "getprofile")),
    "threading": frozenset(
        ("active_count", "current_thread", "get_ident", "Event.is_set", "Thread.is_alive", "Condition.locked")
    ),
    "_thread": frozenset(("get_ident", "lock.locked")),
    "shutil": frozenset(("which",)),
}
_DECIMAL = frozenset(("decimal", "_decimal", "_pydecimal"))


def note_call(
    reads: Any, f: Callable[..., Any], named: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Keeps in the `ReadSet` that the traced function calls `f`, which the user knows as `named`, if it tells of a state
    that lies outside of its arguments.
    """
    owner = getattr(named, "__self__", None)
    home = (
        getattr(named, "__module__", None) or (owner if isinstance(owner, type) else type(owner)).__module__
    )
    name = getattr(named, "__qualname__", "")
    root = home.partition(".")[0]
    if root == "pathlib":  # whose classes lie in private parts of it in Python 3.13
        home, name = root, "Path." + name.rpartition(".")[2]
    if root in _ANEW or home.startswith("numpy.random") or name in _READ.get(home, ()):
        reads.not_seen(
            ("calls", name),
            lambda: Unseen(
                f"{{f}} calls `{name}` only when it is traced; this call takes what it gave then",
                "Call it outside and pass the result as an argument (lamina.random has random numbers for jit).",
            ),
        )
    elif name in _TOLD.get(home, ()) or name.endswith(".__subclasses__"):
        reads.not_seen(
            ("calls", name, *[a if type(a) in (str, int) else id(a) for a in args]),
            lambda: Unseen(
                f"{{f}} calls `{name}` only when it is traced, and it gives another value now",
                "Call it outside and pass the result as an argument.",
                lambda: _outcome(f, args, kwargs),
            ),
        )
    elif root in _DECIMAL and name != "getcontext":
        note_decimal(reads)


def note_decimal(reads: Any) -> None:
    """Keeps that the traced function reckons with decimal numbers, as the context of the thread says."""
    reads.not_seen(
        "decimal",
        lambda: Unseen(
            "{f} reckons with decimal numbers, whose context has changed since it was traced",
            "Reckon outside and pass the result as an argument.",
            _decimal_context,
        ),
    )


def _decimal_context() -> tuple[Any, ...]:
    decimal = sys.modules["decimal"]
    c = decimal.getcontext()
    return c.prec, c.rounding, c.Emin, c.Emax, c.capitals, c.clamp, dict(c.traps)


def note_kinds(reads: Any, f: Callable[[Any, Any], bool], x: Any, kinds: Any) -> None:
    """Keeps that `f`, ``isinstance`` or ``issubclass``, asked classes that answer themselves, as abstract ones do: what
    is registered with those may grow.
    """
    t = x if f is issubclass else type(x)
    for kind in kinds if isinstance(kinds, tuple) else (kinds,):
        if isinstance(kind, type) and isinstance(
            getattr(type(kind), "__instancecheck__", None), types.FunctionType
        ):
            reads.not_seen(
                ("kind", id(t), id(kind)),
                lambda kind=kind: Unseen(
                    f"{{f}} asks whether a {t.__qualname__} is a {kind.__qualname__} only when it is traced, and the "
                    "answer is another one now",
                    "Register classes before the first call, or pass what changes as an argument.",
                    lambda: _outcome(issubclass, (t, kind), {}),
                ),
            )


def note_module_value(reads: Any, module: Any, name: str, value: Any) -> None:
    """Keeps what a module that is not the user's gave a name: a setting of an installed package, say."""
    if isinstance(value, type) or callable(value):
        return
    reads.not_seen(
        ("module", id(module), name),
        lambda: Unseen(
            f"{{f}} reads `{module.__name__}.{name}`, which is another value now",
            "Pass it as an argument.",
            lambda: known_by(getattr(module, name, None)),
        ),
    )


def known_by(value: Any) -> Any:
    """What tells a value from another one later on: a plain one itself, or which object it is."""
    return value if type(value) in (bool, int, float, str, bytes) else id(value)


def _outcome(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return f(*args, **kwargs)
    except Exception as e:
        return type(e)
