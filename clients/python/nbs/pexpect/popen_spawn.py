"""A program with pipes and without a terminal, by pexpect's own module, which has to be installed."""

from pexpect.popen_spawn import PopenSpawn

__all__ = ["PopenSpawn"]
