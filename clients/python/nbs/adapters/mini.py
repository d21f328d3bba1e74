"""An environment for mini-swe-agent (`pip install nbs[mini]`).

    agent = DefaultAgent(model, NbsEnvironment(cwd="/repo", machine="devbox"))

Each command is a session of its own on a terminal, as mini-swe-agent starts a shell for each; it is
ended with all its processes after the timeout.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from typing import Any, Dict, Optional

from minisweagent.environments.local import LocalEnvironment, LocalEnvironmentConfig

from .. import Session


class NbsEnvironmentConfig(LocalEnvironmentConfig):  # type: ignore[misc, unused-ignore]
    machine: Optional[str] = None


class NbsEnvironment(LocalEnvironment):  # type: ignore[misc, unused-ignore]
    """Executes commands in sessions of nbs."""

    def __init__(self, *, config_class: type = NbsEnvironmentConfig, **options: Any) -> None:
        super().__init__(config_class=config_class, **options)

    def execute(self, action: Dict[str, Any], cwd: str = "", *, timeout: Optional[int] = None) -> Dict[str, Any]:
        """Executes a command, and returns `output`, `returncode` and `exception_info`."""
        limit = timeout or self.config.timeout
        try:
            output = self._execute(action.get("command", ""), cwd or self.config.cwd or os.getcwd(), limit)
        except Exception as error:
            shown = f"An error occurred while executing the command: {error}"
            extra = {"exception_type": type(error).__name__, "exception": str(error)}
            printed = getattr(error, "output", None) or ""
            output = {"output": printed, "returncode": -1, "exception_info": shown, "extra": extra}
        self._check_finished(output)
        return output

    def _execute(self, command: str, cwd: str, limit: float) -> Dict[str, Any]:
        # Without echo, and with /dev/null to read: nobody answers here.
        text = f"exec sh -c {shlex.quote(command)} </dev/null"
        with Session(text, cwd=cwd, env=self.config.env, machine=self.config.machine, no_helper=True) as session:
            try:
                session.wait(exit=True, timeout=limit)
            except TimeoutError:
                raise subprocess.TimeoutExpired(command, limit, output=session.read(strip=True).text) from None
            code = session.exit_code().exit_code
            return {"output": session.read(strip=True).text, "returncode": code, "exception_info": ""}
