"""The interface of pexpect over sessions of nbs: `import nbs.pexpect as pexpect`.

`spawn.session` is the session: its screen can be looked at, its output is on disk, and a person
can attach to it. README.md tells what differs from pexpect.
"""

from ._exceptions import EOF, TIMEOUT, ExceptionPexpect
from ._run import run, runu
from ._search import searcher_re, searcher_string
from ._spawn import is_executable_file, spawn, spawnu, split_command_line, which

PY3 = True
__version__ = "4.9.0"
"""The version of pexpect whose interface this is."""

__all__ = [
    "EOF",
    "TIMEOUT",
    "ExceptionPexpect",
    "is_executable_file",
    "run",
    "runu",
    "searcher_re",
    "searcher_string",
    "spawn",
    "spawnu",
    "split_command_line",
    "which",
]
