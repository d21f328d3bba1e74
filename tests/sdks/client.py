"""Does the tasks by the Python SDK.

Usage: client.py SERVER TASKS

In both ways that the SDK has: without a handshake, and with one.
"""

import json
import os
import re
import shutil
import sys
import tempfile

import anyio
from mcp import Client, StdioServerParameters

VERSIONS = {"auto": "2026-07-28", "legacy": "2025-11-25"}


async def main():
    server, tasks = sys.argv[1:]
    with open(tasks, encoding="utf-8") as file:
        tasks = json.load(file)
    for mode, version in VERSIONS.items():
        folder = tempfile.mkdtemp(prefix="nbs-sdk-")
        environment = {"NBS_TS_HOME": f"{folder}/state", "HOME": folder, "PATH": os.environ["PATH"]}
        parameters = StdioServerParameters(command=server, env=environment, cwd=folder)
        async with Client(parameters, mode=mode, message_handler=expect_no_noise) as client:
            assert client.protocol_version == version, client.protocol_version
            tools = (await client.list_tools()).tools
            assert len(tools) == 8, tools
            for number, task in enumerate(tasks, 1):
                await do(client, task)
                print(f"ok {number} - {task['task']}")
        print(f"python, {version}: {len(tasks)} tasks")
        shutil.rmtree(folder)


async def expect_no_noise(message):
    """Nothing comes that was not asked for, least of all what is no message."""
    if isinstance(message, Exception):
        raise message


async def do(client, task):
    calls = task["calls"]
    if task.get("at_once"):
        async with anyio.create_task_group() as group:
            for call in calls:
                group.start_soon(check, client, call)
        return
    if task.get("cancel"):
        with anyio.move_on_after(1):
            await client.call_tool(calls[0]["tool"], calls[0]["arguments"])
            raise AssertionError("it has ended by itself")
        calls = calls[1:]
    told = []

    async def progress(progress, total, message):
        told.append((progress, message))

    for call in calls:
        await check(client, call, progress if task.get("progress") else None)
    assert bool(told) == bool(task.get("progress")), told


async def check(client, call, progress=None):
    result = await client.call_tool(call["tool"], call["arguments"], progress_callback=progress)
    content = result.content[0]
    assert result.is_error == call.get("error", False), result
    if "image" in call:
        assert (content.type, content.mime_type) == ("image", call["image"]), result
    else:
        pattern = call["says"].replace("[^]", "(?s:.)").replace("$", r"\Z")
        assert re.search(pattern, content.text), (call, result)


anyio.run(main)
