"""Every command of nbs-ts has its function, and every option its parameter."""

import inspect
import json
import subprocess

import nbs
import nbs.aio
from nbs import _verbs

# What is left out on purpose. A new command that is neither here nor in the library fails a test.
LEFT_OUT = {
    "doctor": "for a person",
    "help": "for a person",
    "hooks": "for a person: it changes the settings of an agent",
    "machine": "for a person: machines are set up once",
    "notify": "for a person",
    "top": "for a person",
}
LEFT_OUT_OPTIONS = {
    "attach --interactive": "for a person; nbs.pexpect has interact",
    "attach --read-only": "for a person",
    "attach --legacy-exit": "for programs of before",
    "history --export": "the objects have all of it",
    "history --follow": "watch reports changes",
    "list --long": "for a person",
    "list --follow": "watch reports changes",
    "report --hook": "for the hooks of agents",
    "report --quiet": "an exception can be ignored",
    "render --png": "render draws an SVG",
    "restart --boot": "for the start of a machine",
    "screen --png": "Screen.svg draws the picture",
    "screen --svg": "Screen.svg draws the picture",
    "send --secret-fd": "secret is typed",
}
# Commands of another name here; several functions share one where its answers differ.
FUNCTIONS = {"history": [_verbs.history, _verbs.history_of_all], "list": [_verbs.list_], "events": [_verbs.events, _verbs.watch], "exec": [_verbs.execute], "create": [], "ensure": []}
# Options that have another name, or are given by how a function is called.
ALWAYS = {"--all", "--json", "--stdin", "--secret-stdin", "--resume"}
NAMES = {"on": "machine", "no-enter": "enter"}
GIVEN = {"screen --ansi", "send --secret-stdin", "events --follow", "list --json"}


def commands():
    text = subprocess.run([nbs.file(), "ts", "help", "--json"], capture_output=True, check=True).stdout
    return json.loads(text)["commands"]


def parameters(command):
    name = command.replace("-", "_")
    if command in ("create", "ensure"):
        return set(_verbs.Options.__annotations__)
    functions = FUNCTIONS.get(command) or [getattr(_verbs, name)]
    return {parameter for function in functions for parameter in inspect.signature(function).parameters}


def test_every_command_and_option_is_here():
    missing = []
    for command in commands():
        name = command["name"]
        if name in LEFT_OUT:
            continue
        try:
            here = parameters(name)
        except AttributeError:
            missing.append(name)
            continue
        for option in command["options"]:
            full = f"{name} {option['name']}"
            word = option["name"][2:]
            parameter = NAMES.get(word, word).replace("-", "_")
            known = parameter in here or option["name"] in ALWAYS or full in GIVEN or full in LEFT_OUT_OPTIONS
            if not known:
                missing.append(full)
    assert missing == [], "neither in the library nor left out on purpose"


def test_nothing_is_left_out_that_is_not_there():
    options = {f"{one['name']} {option['name']}" for one in commands() for option in one["options"]}
    assert set(LEFT_OUT) <= {one["name"] for one in commands()}
    assert set(LEFT_OUT_OPTIONS) <= options


def test_both_kinds_of_session_have_the_same_methods():
    def public(kind):
        return {name for name in dir(kind) if not name.startswith("_")}

    assert public(nbs.Session) == public(nbs.AsyncSession)
    assert public(nbs.Machine) == public(nbs.AsyncMachine)
    assert public(nbs.Forward) == public(nbs.AsyncForward)
    functions = {name for name in nbs.__all__ if name[0].islower()} - {"file"}
    assert functions == {name for name in nbs.aio.__all__ if name[0].islower()}


def test_methods_show_their_options_and_what_they_return():
    signature = inspect.signature(nbs.Session.run)
    assert "timeout" in signature.parameters
    assert signature.return_annotation == "Result"
    assert "Runs a command" in nbs.Session.run.__doc__
    assert "without a session" in nbs.Machine.exec.__doc__


def test_the_version_is_that_of_the_file():
    import pathlib
    import re

    project = pathlib.Path(__file__).resolve().parent.parent / "pyproject.toml"
    version = re.search(r'^version = "(.*)"', project.read_text(), re.MULTILINE)[1]
    shown = subprocess.run([nbs.file(), "--version"], capture_output=True, text=True, check=True).stdout
    assert shown.split()[1] == version
