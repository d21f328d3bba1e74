"""The exceptions of pexpect."""

from __future__ import annotations

import sys
import traceback
from typing import Any


class ExceptionPexpect(Exception):
    """All exceptions of this module are below it."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        return str(self.value)

    def get_trace(self) -> str:
        """The lines of the caller in the traceback of the current exception."""
        frames = traceback.extract_tb(sys.exc_info()[2])
        return "".join(traceback.format_list([frame for frame in frames if "nbs/pexpect" not in frame.filename]))


class EOF(ExceptionPexpect):
    """The program has ended, and all of its output is read."""


class TIMEOUT(ExceptionPexpect):
    """The time has passed."""
