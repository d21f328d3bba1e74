"""A sandbox and a tool for inspect_ai (`pip install nbs[inspect]`).

    Task(dataset=…, sandbox=("nbs", "devbox"), solver=[use_tools(nbs_session()), generate()])

Each sample has a directory of its own on the machine `devbox`, which is removed with its sessions
at the end. The machine is not confined: nbs reaches it, and inspect_ai's limits are not put on it.
"""

from __future__ import annotations

import posixpath
import shlex
from typing import Any, Dict, List, Optional, Union

from inspect_ai.tool import Tool, ToolError, tool
from inspect_ai.util import ExecResult, SandboxEnvironment, SandboxEnvironmentLimits, StoreModel, sandbox
from inspect_ai.util import OutputLimitExceededError, SandboxUserUnsupportedError, sandboxenv, store_as

from .. import AsyncMachine, AsyncSession, Executed, TimedOut
from .. import aio


@sandboxenv(name="nbs")
class NbsSandbox(SandboxEnvironment):  # type: ignore[misc, unused-ignore]
    """A directory on a machine of nbs."""

    def __init__(self, machine: str, directory: str) -> None:
        super().__init__()
        self.machine = AsyncMachine(machine)
        self.directory = directory

    @classmethod
    async def sample_init(cls, task_name: str, config: Any, metadata: Dict[str, str]) -> Dict[str, Any]:
        if not isinstance(config, str):
            raise ValueError("the sandbox needs the name of a machine: sandbox=('nbs', 'devbox')")
        # inspect_ai makes a path of it, as of the files that configure other sandboxes.
        machine = posixpath.basename(config)
        made = (await AsyncMachine(machine).exec("cd && mktemp -d")).check()
        return {"default": cls(machine, made.text.rstrip("\n"))}

    @classmethod
    async def sample_cleanup(
        cls, task_name: str, config: Any, environments: Dict[str, Any], interrupted: bool
    ) -> None:
        for environment in environments.values():
            for session in await aio.sessions(machine=environment.machine.name):
                if session.fields.get("parent") == environment.directory:
                    await aio.kill(session.handle, if_exists=True)
            await environment.machine.exec(["rm", "-rf", "--", environment.directory])

    async def exec(
        self,
        cmd: List[str],
        input: Union[str, bytes, None] = None,
        cwd: Optional[str] = None,
        env: Optional[Dict[str, str]] = None,
        user: Optional[str] = None,
        timeout: Optional[int] = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> Any:
        # Only built-in commands of sh, and one by its path, stand before the command.
        words = f"cd {shlex.quote(self._path(cwd or '.'))} && "
        words += "".join(f"export {shlex.quote(f'{name}={value}')} && " for name, value in (env or {}).items())
        if user is not None and not await self._is(user):
            if not await self._is("root"):
                raise SandboxUserUnsupportedError(f"'{self.machine.name}' cannot execute as {user!r}")
            words += f"exec /usr/sbin/runuser -u {shlex.quote(user)} -- {shlex.join(cmd)}"
        else:
            words += f"exec {shlex.join(cmd)}"
        done = await self.machine.exec(words, stdin=input, timeout=timeout)
        output, errors = done.text, done.errors.decode("utf-8", "replace")
        if done.exit_code == 126 and "ermission denied" in errors:
            raise PermissionError(errors)
        limit = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        if max(len(done.output), len(done.errors)) > limit:
            shown = done.output[:limit].decode("utf-8", "replace")
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, shown)
        return ExecResult(done.ok, done.exit_code, output, errors)

    async def _is(self, user: str) -> bool:
        done = await self.machine.exec("id -u && id -un")
        return user in done.text.split("\n")

    async def write_file(self, file: str, contents: Union[str, bytes]) -> None:
        path = self._path(file)
        made = f"mkdir -p -- {shlex.quote(posixpath.dirname(path))}"
        self._check(file, await self.machine.exec(f"{made} && cat >{shlex.quote(path)}", stdin=contents))

    async def read_file(self, file: str, text: bool = True) -> Any:
        limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        command = ["head", "-c", str(limit + 1), "--", self._path(file)]
        done = self._check(file, await self.machine.exec(command))
        if len(done.output) > limit:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        return done.output.decode() if text else done.output

    def _path(self, file: str) -> str:
        return posixpath.normpath(posixpath.join(self.directory, file))

    def _check(self, file: str, done: Executed) -> Executed:
        errors = done.errors.decode("utf-8", "replace").rstrip()
        for text, kind in [
            ("s a directory", IsADirectoryError),
            ("ermission denied", PermissionError),
            ("o such file or directory", FileNotFoundError),
            ("ot a directory", FileNotFoundError),
        ]:
            if not done.ok and text in errors:
                raise kind(f"{file}: {errors}")
        return done.check()


class Kept(StoreModel):  # type: ignore[misc, unused-ignore]
    """The session of a sample."""

    handle: str = ""


@tool  # type: ignore[misc, untyped-decorator, unused-ignore]
def nbs_session(wait_for_output: int = 30, instance: Optional[str] = None) -> Tool:
    """A bash that goes on between calls, in a session of nbs.

    Args:
      wait_for_output: The seconds after which a call returns although the program does not wait for input.
      instance: Each one has a bash of its own.
    """

    async def execute(action: str, input: Optional[str] = None) -> str:
        """Interact with a bash shell.

        Returns the output since the last call, when the program waits for input, or after a while. A
        command that is still running then goes on: use "read" to wait for more of it.

        Args:
          action: "type" types the input, "type_submit" types it and presses Return, "read" types nothing,
              "interrupt" presses Ctrl-C, and "restart" ends the shell and starts another.
          input: The text to type, for "type" and "type_submit".
        """
        if action not in ("type", "type_submit", "read", "interrupt", "restart"):
            raise ToolError(f"'{action}' is not an action")
        if (input is not None) != (action == "type") and action != "type_submit":
            raise ToolError(f"'input' is {'required' if action == 'type' else 'not'} for '{action}'")
        kept = store_as(Kept, instance=instance)
        if action == "restart" and kept.handle:
            await aio.kill(kept.handle, if_exists=True)
            kept.handle = ""
        session = AsyncSession.open(kept.handle)
        if not kept.handle:
            place = sandbox().as_type(NbsSandbox)
            options: Dict[str, Any] = {"cwd": place.directory, "parent": place.directory}
            session = await AsyncSession("bash", machine=place.machine.name, **options).start()
            kept.handle = session.handle
        if action in ("type", "type_submit"):
            await session.send(input or "", enter=action == "type_submit")
        elif action == "interrupt":
            await session.key("C-c")
        try:
            await session.wait(input=True, timeout=wait_for_output)
        except TimedOut:
            pass  # What it has printed until now is an answer, too.
        return (await session.read_new(strip=True)).text

    return execute
