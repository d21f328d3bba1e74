import asyncio
import os
import signal
import subprocess
import sys
import threading

import nbs
import nbs.aio
import pytest


def asynchronous(test):
    """Runs a test in asyncio."""

    def run(*given, **fixtures):
        asyncio.run(test(*given, **fixtures))

    run.__name__ = test.__name__
    return run


@asynchronous
async def test_a_shell_is_used_in_an_event_loop():
    async with nbs.AsyncSession() as shell:
        await shell.run("cd /usr")
        result = (await shell.run("pwd; (exit 3)"))
        assert (result.output, result.exit_code) == ("/usr\n", 3)
        assert [info.handle for info in await nbs.aio.sessions()] == [shell.handle]
        assert "pwd" in await shell.screen()
        result = await shell.run('read -p "sure? " x; echo "$x"')
        assert result.question == "sure?"
        await shell.answer("y")
        assert (await shell.resume()).ok
        with pytest.raises(nbs.TimedOut):
            await shell.wait(pattern="never", timeout=0.2)
    assert nbs.sessions() == []


@asynchronous
async def test_output_arrives_while_other_tasks_work():
    async with nbs.AsyncSession("for i in 1 2 3; do echo $i; sleep 0.1; done; exit 5") as counting:
        follow = counting.follow()
        text = ""
        async for chunk in follow:
            text += chunk.text
        assert text == "1\r\n2\r\n3\r\n"
        assert follow.exit.exit_code == 5
    async with nbs.AsyncSession("yes") as endless:
        async for chunk in endless.follow():
            assert "y" in chunk.text
            break
    async with nbs.aio.watch() as events:
        async with nbs.AsyncSession("exit 4") as once:
            async for event in events:
                if event["session_id"] == once.handle:
                    break
        assert event["exit_code"] == 4


@asynchronous
async def test_a_cancelled_task_ends_its_call_and_not_its_session():
    async with nbs.AsyncSession() as shell:
        task = asyncio.ensure_future(shell.run("echo begun; sleep 1000"))
        await shell.wait(pattern="begun")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(shell.wait(pattern="never"), 0.2)
        assert (await shell.run("echo usable")).output == "usable\n"


@asynchronous
async def test_a_task_that_is_cancelled_anywhere_leaves_no_session():
    async def work():
        async with nbs.AsyncSession() as shell:
            await shell.run("true")

    for milliseconds in range(0, 200, 10):
        task = asyncio.ensure_future(work())
        await asyncio.sleep(milliseconds / 1000)
        task.cancel()
        # Cancelled again, while it cleans up.
        await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert await nbs.aio.sessions() == []


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_fifty_tasks_use_a_thousand_sessions_in_one_event_loop(kind):
    loop = pytest.importorskip(kind).new_event_loop()
    descriptors = len(os.listdir("/proc/self/fd"))

    async def work(number):
        for turn in range(20):
            async with nbs.AsyncSession() as shell:
                result = await shell.run(f"echo {number} {turn}")
                assert result.output == f"{number} {turn}\n"

    async def all_of_them():
        await asyncio.gather(*(work(number) for number in range(50)))

    loop.run_until_complete(all_of_them())
    assert threading.active_count() == 1
    assert len(os.listdir("/proc/self/fd")) == descriptors
    loop.close()


@asynchronous
async def test_a_session_that_was_not_started_says_so():
    with pytest.raises(nbs.Error, match="not started"):
        await nbs.AsyncSession().run("true")
    shell = await nbs.AsyncSession(name="kept").start()
    assert (await nbs.AsyncSession.ensure("kept")).handle == shell.handle
    await shell.kill()


async def everything():
    """What must work in any event loop."""
    async with nbs.AsyncSession() as shell:
        assert (await shell.run("echo hi")).output == "hi\n"
        with pytest.raises(nbs.TimedOut):
            await shell.wait(pattern="never", timeout=0.2)
    async with nbs.AsyncSession("echo hi") as once:
        assert [chunk.text async for chunk in once.follow()] == ["hi\r\n"]


def test_trio_is_an_event_loop():
    trio = pytest.importorskip("trio")
    trio.run(everything)

    async def cancelled():
        with trio.move_on_after(0.5):
            async with nbs.AsyncSession() as shell:
                await shell.run("sleep 1000")

    trio.run(cancelled)
    assert nbs.sessions() == []


def test_uvloop_is_an_event_loop():
    uvloop = pytest.importorskip("uvloop")
    loop = uvloop.new_event_loop()
    loop.run_until_complete(everything())
    loop.close()


def test_an_event_loop_in_a_thread_works():
    failures = []

    def run():
        try:
            asyncio.run(everything())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert failures == []


# Signals, forks, and the end of the loop and of the interpreter.


def python(text):
    script = f"import asyncio, gc, nbs, nbs.aio, os, sys\n{text}"
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_an_interrupt_ends_the_event_loop_with_its_sessions():
    child = python(
        "async def work():\n"
        "    async with nbs.AsyncSession() as s:\n"
        "        print(s.handle, flush=True)\n"
        "        await s.run('echo begun; sleep 1000')\n"
        "async def main():\n"
        "    await asyncio.gather(work(), work(), work())\n"
        "asyncio.run(main())\n"
    )
    for _ in range(3):
        nbs.Session.open(child.stdout.readline().strip()).wait(pattern="begun", offset=0)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert nbs.sessions() == []


def test_an_event_loop_that_ends_before_its_tasks_leaves_nothing():
    child = python(
        "async def work(s):\n"
        "    await s.run('echo begun; sleep 1000')\n"
        "async def follow(s):\n"
        "    async for _ in s.follow(): pass\n"
        "async def main():\n"
        "    s = await nbs.AsyncSession(owner=os.getpid()).start()\n"
        "    tasks = [asyncio.ensure_future(one) for one in (work(s), follow(s), s.wait(pattern='never'))]\n"
        "    await s.wait(pattern='begun', offset=0)\n"
        "    print(s.handle, flush=True)\n"
        "asyncio.run(main())\n"
        "print(open(f'/proc/self/task/{os.getpid()}/children').read(), len(os.listdir('/proc/self/fd')))\n"
    )
    output, errors = child.communicate(timeout=60)
    handle, left = output.split("\n")[:2]
    assert (left.split(), errors) == (["4"], "")
    nbs.Session.open(handle).wait(exit=True)


def test_a_loop_that_is_closed_with_calls_at_work_does_not_hang(eventually):
    child = python(
        "loop = asyncio.new_event_loop()\n"
        "async def work():\n"
        "    async with nbs.AsyncSession() as s:\n"
        "        await s.run('sleep 1000')\n"
        "task = loop.create_task(work())\n"
        "loop.call_later(1, loop.stop)\n"
        "loop.run_forever()\n"
        "loop.close()\n"
        "del task\n"
        "gc.collect()\n"
    )
    child.communicate(timeout=60)
    # Nothing awaits its end any more.
    eventually(lambda: not any(info.alive for info in nbs.sessions()))


def test_a_process_forked_in_an_event_loop_ends_nothing():
    child = python(
        "async def main():\n"
        "    async with nbs.AsyncSession() as s:\n"
        "        running = asyncio.ensure_future(s.run('sleep 1; echo done'))\n"
        "        await asyncio.sleep(0)\n"
        "        await s.wait(idle=0.1)\n"
        "        pid = os.fork()\n"
        "        if pid == 0:\n"
        "            nbs.Session.open(s.handle).run('true')\n"
        "            os._exit(0)\n"
        "        os.waitpid(pid, 0)\n"
        "        print((await running).output, flush=True)\n"
        "asyncio.run(main())\n"
    )
    output, _ = child.communicate(timeout=60)
    assert output.split() == ["done"]
