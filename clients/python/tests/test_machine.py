import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading

import nbs
import nbs.aio
import pytest


@pytest.fixture
def there(tmp_path):
    """The home directory of a machine `box`, which is this one."""
    folder = tmp_path / "there"
    folder.mkdir(mode=0o700)
    words = ["env", "-i", f"HOME={folder}", "PATH=/usr/bin:/bin", "sh"]
    subprocess.run([nbs.file(), "ts", "machine", "add", "box", *words], check=True)
    yield folder
    subprocess.run([nbs.file(), "ts", "machine", "remove", "box"], check=True)


@pytest.fixture
def echo():
    """The port of a server that sends back what it is sent."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            with client:
                client.sendall(client.recv(100))

    thread = threading.Thread(target=serve)
    thread.start()
    yield server.getsockname()[1]
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join()


def answered(port):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(b"hello")
        return client.recv(100)


def test_a_program_is_executed_on_a_machine(there):
    box = nbs.Machine("box")
    done = box.exec("pwd; cat; printf 'a\\377' >&2; exit 4", stdin="given\n")
    assert (done.text, done.errors, done.exit_code, done.ok) == (f"{there}\ngiven\n", b"a\xff", 4, False)
    assert box.exec(["printf", "%s|", "a b", "$HOME"]).check().output == b"a b|$HOME|"
    with pytest.raises(nbs.CommandFailed, match="exited with 255") as caught:
        box.exec("echo no; echo broken >&2; exit 255").check()
    assert (caught.value.exit, caught.value.output, caught.value.result.errors) == (255, "no\n", b"broken\n")
    assert box.exec("kill -9 $$").exit_code == 137
    long = box.exec(["printf", "%s", *["x" * 50_000] * 4, "a\n"])
    assert long.check().output == b"x" * 200_000 + b"a\n"
    assert box.exec(f"# {'x' * 200_000}\ncat; exit 3", stdin="given").text == "given"
    assert box.exec("head -c 3000000 /dev/zero").output == bytes(3_000_000)


def test_a_program_that_takes_too_long_is_ended(there, eventually):
    with pytest.raises(nbs.TimedOut) as caught:
        nbs.Machine("box").exec("echo $$; exec sleep 1000", timeout="8s")
    assert caught.value.waited == 8
    eventually(lambda: not os.path.exists(f"/proc/{int(caught.value.output)}"))
    with pytest.raises(nbs.BadArguments, match="invalid TIME 'soon'"):
        nbs.Machine("box").exec("true", timeout="soon")


def test_a_machine_that_cannot_be_reached_executes_nothing():
    subprocess.run([nbs.file(), "ts", "machine", "add", "nowhere", "false"], check=True)
    nowhere = nbs.Machine("nowhere")
    with pytest.raises(nbs.ConnectionLost, match="nothing was done"):
        nowhere.exec("true")
    with pytest.raises(nbs.ConnectionLost):
        nowhere.put(__file__)
    with pytest.raises(nbs.ConnectionLost, match="nothing was done"):
        with nowhere.forward(0):
            pass
    with pytest.raises(nbs.BadArguments):
        nowhere.forward()


def test_files_are_copied_to_and_from_a_machine(there, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    box = nbs.Machine("box")
    (tmp_path / "a:b").write_bytes(b"\0\xff")
    box.put("a:b")
    assert (there / "a:b").read_bytes() == b"\0\xff"
    (there / "logs").mkdir()
    (there / "logs" / "one").write_text("1")
    box.get("logs", tmp_path / "copied", recursive=True)
    assert (tmp_path / "copied" / "one").read_text() == "1"
    box.get(["a:b", "logs/one"], tmp_path / "copied")
    assert sorted(os.listdir(tmp_path / "copied")) == ["a:b", "one"]
    nbs.cp(["box:logs/one"], "box:two")
    assert (there / "two").read_text() == "1"
    with pytest.raises(nbs.Error, match="missing"):
        box.get("missing")


def test_a_port_is_reachable_while_it_is_forwarded(there, echo):
    with nbs.Machine("box").forward(f"0:127.0.0.1:{echo}") as forward:
        assert forward.listening == [f"127.0.0.1:{forward.port}"]
        assert answered(forward.port) == b"hello"
        port = forward.port
    with pytest.raises(ConnectionRefusedError):
        answered(port)
    with nbs.Machine("box").forward(f"0:127.0.0.1:{echo}", f"0:localhost:{echo}", reverse=True) as forward:
        assert forward.listening[0] == f"box:{forward.port}" and len(forward.listening) == 2
        assert answered(forward.port) == b"hello"


def test_a_port_that_is_taken_is_not_forwarded(there, echo):
    with pytest.raises(nbs.Error, match=f"{echo}"):
        nbs.Machine("box").forward(echo).start()
    with pytest.raises(nbs.Error, match="not started"):
        nbs.Machine("box").forward(0).port


def test_a_forward_ends_with_its_program(there, eventually):
    text = "import nbs, time; print(nbs.Machine('box').forward(0).start().port, flush=True); time.sleep(1000)"
    child = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    port = int(child.stdout.readline())
    socket.create_connection(("127.0.0.1", port)).close()
    child.send_signal(signal.SIGKILL)
    child.communicate()
    eventually(lambda: socket.socket().connect_ex(("127.0.0.1", port)) != 0)
    nbs.wait(*[session.handle for session in nbs.sessions()], exit=True)


def test_a_machine_is_used_in_an_event_loop(there, tmp_path, echo):
    async def used():
        box = nbs.aio.Machine("box")
        done = await box.exec("cat", stdin=b"given")
        assert done.check().output == b"given"
        with pytest.raises(nbs.TimedOut):
            await box.exec("sleep 1000", timeout=0.2)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(box.exec("sleep 1000"), 0.2)
        (there / "one").write_text("1")
        await box.get("one", tmp_path)
        await box.put(tmp_path / "one", "two")
        assert (there / "two").read_text() == "1"
        async with box.forward(f"0:127.0.0.1:{echo}") as forward:
            loop = asyncio.get_running_loop()
            assert await loop.run_in_executor(None, answered, forward.port) == b"hello"
        with pytest.raises(nbs.Error, match=f"{echo}"):
            await box.forward(echo).start()

    asyncio.run(used())
