"""Terminal sessions for programs.

    import nbs

    with nbs.Session() as shell:
        shell.run("cd ~/project && make", timeout=600).check()
        print(shell.run("git log --oneline | head -3").output)

`nbs help python` shows more.
"""

from ._answers import Answer, Chunk, Cursor, Executed, Exit, Met, Output, Result, Screen, SessionInfo
from ._errors import BadArguments, CommandFailed, ConnectionLost, Error, NotFound, NotRun, TimedOut
from ._machine import AsyncForward, AsyncMachine, Forward, Machine
from ._process import file
from ._session import (
    AsyncFollow,
    AsyncSession,
    AsyncWatch,
    Follow,
    Session,
    Watch,
    cp,
    events,
    find,
    gc,
    history,
    kill,
    render,
    sessions,
    wait,
    watch,
)

__all__ = [
    "Answer",
    "AsyncFollow",
    "AsyncForward",
    "AsyncMachine",
    "AsyncSession",
    "AsyncWatch",
    "BadArguments",
    "Chunk",
    "CommandFailed",
    "ConnectionLost",
    "Cursor",
    "Error",
    "Executed",
    "Exit",
    "Follow",
    "Forward",
    "Machine",
    "Met",
    "NotFound",
    "NotRun",
    "Output",
    "Result",
    "Screen",
    "Session",
    "SessionInfo",
    "TimedOut",
    "Watch",
    "cp",
    "events",
    "file",
    "find",
    "gc",
    "history",
    "kill",
    "render",
    "sessions",
    "wait",
    "watch",
]
