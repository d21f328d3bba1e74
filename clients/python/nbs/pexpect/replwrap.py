"""Programs that read a command at a prompt, and print its answer."""

from __future__ import annotations

import re
import signal
from typing import Any, Optional

from ._spawn import spawn

PEXPECT_PROMPT = "[PEXPECT_PROMPT>"
PEXPECT_CONTINUATION_PROMPT = "[PEXPECT_PROMPT+"


class REPLWrapper:
    """A program with a prompt. `prompt_change` is the command that sets the prompt; `{}` in it
    stand for the new prompts."""

    def __init__(
        self,
        cmd_or_spawn: Any,
        orig_prompt: str,
        prompt_change: Optional[str],
        new_prompt: str = PEXPECT_PROMPT,
        continuation_prompt: str = PEXPECT_CONTINUATION_PROMPT,
        extra_init_cmd: Optional[str] = None,
    ) -> None:
        if isinstance(cmd_or_spawn, str):
            self.child: Any = spawn(cmd_or_spawn, echo=False, encoding="utf-8")
        else:
            self.child = cmd_or_spawn
        if self.child.echo:
            self.child.setecho(False)
            self.child.waitnoecho()
        if prompt_change is None:
            self.prompt = orig_prompt
        else:
            self.child.expect(orig_prompt)
            self.child.sendline(prompt_change.format(new_prompt, continuation_prompt))
            self.prompt = new_prompt
        self.continuation_prompt = continuation_prompt
        self._expect_prompt()
        if extra_init_cmd is not None:
            self.run_command(extra_init_cmd)

    def _expect_prompt(self, timeout: Optional[float] = -1, async_: bool = False) -> Any:
        return self.child.expect_exact([self.prompt, self.continuation_prompt], timeout=timeout, async_=async_)

    def run_command(self, command: str, timeout: Optional[float] = -1, async_: bool = False) -> Any:
        """Types a command, and returns what it printed. With `async_` it is awaited."""
        lines = command.splitlines()
        if command.endswith("\n"):
            lines.append("")
        if not lines:
            raise ValueError("No command was given")
        if async_:
            return self._run_later(command, lines, timeout)
        output = []
        self.child.sendline(lines[0])
        for line in lines[1:]:
            self._expect_prompt(timeout=timeout)
            output.append(self.child.before)
            self.child.sendline(line)
        return self._answer(command, output, self._expect_prompt(timeout=timeout))

    async def _run_later(self, command: str, lines: Any, timeout: Optional[float]) -> Any:
        output = []
        self.child.sendline(lines[0])
        for line in lines[1:]:
            await self._expect_prompt(timeout=timeout, async_=True)
            output.append(self.child.before)
            self.child.sendline(line)
        return self._answer(command, output, await self._expect_prompt(timeout=timeout, async_=True))

    def _answer(self, command: str, output: Any, index: int) -> Any:
        if index == 1:
            # It wants more. The command is dropped.
            self.child.kill(signal.SIGINT)
            self._expect_prompt(timeout=1)
            raise ValueError("Continuation prompt found - input was incomplete:\n" + command)
        return "".join([*output, self.child.before])


def python(command: str = "python3") -> REPLWrapper:
    """A Python."""
    return REPLWrapper(command, ">>> ", "import sys; sys.ps1={0!r}; sys.ps2={1!r}")


def _shell(child: spawn, orig_prompt: str, setup: str) -> REPLWrapper:
    # In two parts, so that the echo of the command is not taken for the prompt.
    ps1 = PEXPECT_PROMPT[:5] + r"\[\]" + PEXPECT_PROMPT[5:]
    ps2 = PEXPECT_CONTINUATION_PROMPT[:5] + r"\[\]" + PEXPECT_CONTINUATION_PROMPT[5:]
    return REPLWrapper(child, orig_prompt, setup.format(ps1, ps2), extra_init_cmd="export PAGER=cat")


def bash(command: str = "bash") -> REPLWrapper:
    """A bash, without the user's settings."""
    child = spawn(command, ["--norc", "--noprofile"], echo=False, encoding="utf-8")
    setup = "PS1='{0}' PS2='{1}' PROMPT_COMMAND=''; bind 'set enable-bracketed-paste off' 2>/dev/null"
    return _shell(child, re.escape("$ ") + "|" + re.escape("# "), setup)


def zsh(command: str = "zsh", args: Any = ("--no-rcs", "-V", "+Z")) -> REPLWrapper:
    """A zsh, without the user's settings."""
    child = spawn(command, list(args), echo=False, encoding="utf-8")
    setup = "PS1='{0}' PS2='{1}'".replace("{0}", "%(!..)" + PEXPECT_PROMPT).replace(
        "{1}", "%(!..)" + PEXPECT_CONTINUATION_PROMPT
    )
    return REPLWrapper(child, "[%$#] ?", setup, extra_init_cmd="export PAGER=cat")
