"""A plug-in for pytest that puts nbs.pexpect in the place of pexpect, for pexpect's own tests.

    PYTHONPATH=clients/python:clients/python/tests pytest -p in_place_of_pexpect PEXPECT/tests

Modules that do not start programs on terminals (ANSI, FSM, screen, fdpexpect, socket_pexpect) are
pexpect's own, as are pxssh and popen_spawn, over this `spawn`.
"""

import importlib
import os
import sys

import nbs.pexpect
import nbs.pexpect.replwrap

OWN = os.environ["PEXPECT"]

for name in [name for name in sys.modules if name == "pexpect" or name.startswith("pexpect.")]:
    del sys.modules[name]
# First as they are: they import what they need of pexpect.
sys.path.insert(0, os.path.dirname(OWN))
real = importlib.import_module("pexpect")
kept = {}
for name in ("fdpexpect", "socket_pexpect", "popen_spawn", "utils", "spawnbase", "exceptions", "expect", "_async"):
    kept[name] = importlib.import_module(f"pexpect.{name}")
nbs.pexpect.__path__.append(OWN)
sys.modules["pexpect"] = nbs.pexpect
sys.modules["pexpect.replwrap"] = nbs.pexpect.replwrap
for name, module in kept.items():
    setattr(nbs.pexpect, name, module)
# One kind of exception for all.
for name in ("EOF", "TIMEOUT", "ExceptionPexpect"):
    for module in kept.values():
        if hasattr(module, name):
            setattr(module, name, getattr(nbs.pexpect, name))
