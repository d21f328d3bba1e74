"""The functions of the package, for programs with an event loop."""

from __future__ import annotations

from . import _verbs
from ._machine import AsyncMachine as Machine
from ._session import AsyncSession as Session
from ._session import later
from ._session import watch_async as watch

cp = later(_verbs.cp)
sessions = later(_verbs.list_)
find = later(_verbs.find)
wait = later(_verbs.wait)
events = later(_verbs.events)
kill = later(_verbs.kill)
gc = later(_verbs.gc)
history = later(_verbs.history_of_all)
render = later(_verbs.render)

__all__ = ["Machine", "Session", "cp", "events", "find", "gc", "history", "kill", "render", "sessions", "wait", "watch"]
