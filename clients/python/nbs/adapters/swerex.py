"""A runtime and a deployment for SWE-ReX (`pip install nbs[swerex]`).

    deployment = NbsDeployment()
    await deployment.start()
    await deployment.runtime.create_session(CreateBashSessionRequest())

Sessions are sessions of nbs; files and `execute` are those of SWE-ReX's own local runtime.
"""

from __future__ import annotations

import subprocess
from typing import Any, Dict

from swerex.deployment.local import LocalDeployment
from swerex.exceptions import (
    BashIncorrectSyntaxError,
    CommandTimeoutError,
    NoExitCodeError,
    NonZeroExitCodeError,
    SessionDoesNotExistError,
    SessionExistsError,
)
from swerex.runtime.abstract import (
    BashInterruptAction,
    BashObservation,
    CloseBashSessionResponse,
    CloseResponse,
    CreateBashSessionResponse,
)
from swerex.runtime.local import LocalRuntime

from .. import AsyncSession, Error, NotRun, Result, TimedOut


class NbsRuntime(LocalRuntime):  # type: ignore[misc, unused-ignore]
    """Runs commands in sessions of nbs."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.shells: Dict[str, AsyncSession] = {}

    def _shell(self, name: str) -> AsyncSession:
        if name not in self.shells:
            raise SessionDoesNotExistError(f"session {name!r} does not exist")
        return self.shells[name]

    async def create_session(self, request: Any) -> Any:
        if request.session in self.shells:
            raise SessionExistsError(f"session {request.session} already exists")
        shell = AsyncSession("bash", no_helper=True)
        await shell.__aenter__()
        self.shells[request.session] = shell
        output = ""
        for path in request.startup_source:
            output += (await shell.run(["source", path], timeout=request.startup_timeout)).output
        return CreateBashSessionResponse(output=output)

    async def close_session(self, request: Any) -> Any:
        await self._shell(request.session).__aexit__(None, None, None)
        del self.shells[request.session]
        return CloseBashSessionResponse()

    async def close(self) -> Any:
        for shell in self.shells.values():
            await shell.__aexit__(None, None, None)
        self.shells.clear()
        await super().close()
        return CloseResponse()

    async def run_in_session(self, action: Any) -> Any:
        shell = self._shell(action.session)
        if isinstance(action, BashInterruptAction):
            before = (await shell.status()).fields["log"]["end"]
            await shell.key("C-c")
            try:
                await shell.wait(complete=True, timeout=max(action.timeout * action.n_retry, 1))
            except TimedOut:
                # It ignores Ctrl-C, as a pager does.
                await shell.key("C-z")
                await shell.wait(input=True, timeout=5)
                await shell.run("kill -9 %%", timeout=5)
            return BashObservation(output=(await shell.read(offset=before, rendered=True)).text, exit_code=0)
        if action.is_interactive_command or action.is_interactive_quit:
            return await self._interactive(shell, action)
        try:
            result = await shell.run(action.command, timeout=action.timeout, no_input=True)
        except NotRun as error:
            raise NoExitCodeError(str(error)) from error
        return self._observation(action, result)

    def _observation(self, action: Any, result: Result) -> Any:
        if result.timed_out:
            text = f"timeout after {action.timeout} seconds while running command {action.command!r}"
            raise CommandTimeoutError(text)
        if result.exit_code == 2 and result.output == "" or "syntax error" in result.output:
            checked = subprocess.run(["bash", "-n"], input=action.command, capture_output=True, text=True)
            if checked.returncode != 0:
                info = {"bash_stdout": checked.stdout, "bash_stderr": checked.stderr}
                raise BashIncorrectSyntaxError(f"{action.command!r} is not valid bash", extra_info=info)
        if action.check == "raise" and result.exit_code != 0:
            text = f"Command {action.command!r} failed with exit code {result.exit_code}"
            raise NonZeroExitCodeError(f"{text}. Here is the output:\n{result.output!r}. {action.error_msg}")
        code = None if action.check == "ignore" else result.exit_code
        return BashObservation(output=result.output, exit_code=code)

    async def _interactive(self, shell: AsyncSession, action: Any) -> Any:
        conditions: Dict[str, Any] = {"pattern": action.expect} if action.expect else {"input": True}
        try:
            answer = await shell.ask(action.command.rstrip("\n"), timeout=action.timeout, **conditions)
        except TimedOut as error:
            raise CommandTimeoutError(f"timeout after {action.timeout} seconds; {error}") from error
        except Error as error:
            raise NoExitCodeError(str(error)) from error
        return BashObservation(output=answer.output, exit_code=0, expect_string=answer.detail)


class NbsDeployment(LocalDeployment):  # type: ignore[misc, unused-ignore]
    """This machine, with sessions of nbs."""

    async def start(self) -> None:
        self._runtime = NbsRuntime(logger=self.logger)  # type: ignore[assignment, unused-ignore]
