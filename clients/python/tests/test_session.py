import datetime
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading

import nbs
import pytest


def test_a_shell_keeps_its_directory_and_variables():
    with nbs.Session() as shell:
        shell.run("cd /usr && x=5").check()
        result = shell.run('pwd; echo "x is $x"; (exit 3)')
        assert result.output == "/usr\nx is 5\n"
        assert (result.exit_code, result.state, result.ok) == (3, "done", False)
        assert result.duration >= 0
        assert shell.pwd() == "/usr"
        assert [session.handle for session in nbs.sessions()] == [shell.handle]
    assert nbs.sessions() == []


def test_check_raises_what_the_command_printed():
    with nbs.Session() as shell:
        with pytest.raises(nbs.CommandFailed, match="exited with 7") as caught:
            shell.run("echo broken; (exit 7)").check()
        assert caught.value.exit == 7
        assert caught.value.output == "broken\n"
        assert caught.value.result.exit_code == 7
        with pytest.raises(nbs.TimedOut) as timeout:
            shell.run("echo slow; sleep 50", timeout=0.5).check()
        assert timeout.value.output == "slow\n"
        assert isinstance(timeout.value, TimeoutError)
        assert shell.run("echo usable").check().output == "usable\n"


def test_a_list_of_words_is_quoted():
    with nbs.Session() as shell:
        assert shell.run(["printf", "%s|", "a b", "$HOME", "it's"]).output == "a b|$HOME|it's|"
    with nbs.Session(["printf", "%s|", "a  b"]) as once:
        once.wait(exit=True)
        assert once.read().text == "a  b|"


def test_long_commands_and_bytes_go_over_whole():
    with nbs.Session() as shell:
        text = "x" * 200_000
        assert shell.run(f"printf %s {text} | wc -c").output.strip() == "200000"
        result = shell.run(r"printf 'a\377b'")
        assert result.lossy and result.output == "a\ufffdb"
        assert b"a\xffb" in shell.read_bytes()


def test_a_question_is_answered():
    with nbs.Session() as shell:
        result = shell.run('read -p "sure? " x; echo "you said $x"')
        assert result.question == "sure?"
        assert (result.exit_code, result.terminal, result.timed_out) == (None, "line", False)
        with pytest.raises(nbs.CommandFailed, match="waits for input"):
            result.check()
        assert [info.handle for info in nbs.sessions(waiting=True)] == [shell.handle]
        shell.answer("yes")
        assert shell.resume().check().output.endswith("you said yes\n")
        with pytest.raises(nbs.Error, match="does not ask"):
            shell.answer("yes")


def test_a_secret_is_typed_at_its_prompt_only():
    with nbs.Session() as shell:
        result = shell.run('read -s -p "password: " x; echo; echo "${#x}"')
        assert result.terminal == "secret"
        shell.send(secret="open sesame")
        assert shell.resume().check().output.strip() == "11"
        assert b"sesame" not in shell.read_bytes()


def test_ask_speaks_with_any_program():
    with nbs.Session([sys.executable, "-q"]) as python:
        python.wait(input=True)
        answer = python.ask("sum(range(10))")
        assert answer.output.strip() == "45"
        assert answer.condition == "input"
        with pytest.raises(nbs.TimedOut) as caught:
            python.ask("import time; print('begun'); time.sleep(60)", timeout=1)
        assert caught.value.waited == 1
        assert caught.value.terminal == "running"
        assert "begun" in (caught.value.output or "")
        assert caught.value.session == python.handle


def test_wait_tells_which_condition_was_met():
    with nbs.Session() as shell:
        shell.send("echo one; sleep 0.2; echo two")
        met = shell.wait(pattern=["two", "three"])
        assert (met.session, met.condition, met.detail) == (shell.handle, "pattern", "two")
        shell.wait(input=True)
        shell.send("echo 'error: no'")
        with pytest.raises(nbs.Error, match="printed 'error:'"):
            shell.wait(pattern="yes", fail="error:")
        with pytest.raises(nbs.TimedOut) as caught:
            shell.wait(pattern="never", timeout=datetime.timedelta(milliseconds=300))
        assert caught.value.waited == pytest.approx(0.3)
        assert caught.value.last_line is not None
        shell.send("(exit 4)")
        assert shell.wait(complete=True).detail == "4"


def test_several_sessions_are_waited_for():
    with nbs.Session("sleep 60") as slow, nbs.Session("exit 3") as fast:
        met = nbs.wait(slow.handle, fast.handle, exit=True, any=True)
        assert [(one.session, one.detail) for one in met] == [(fast.handle, "3")]
        assert fast.exit_code().exit_code == 3
        assert slow.exit_code().exit_code is None


def test_the_screen_is_text_and_a_picture():
    with nbs.Session(size=(40, 5)) as shell:
        shell.run("printf '\\033[31mred\\033[0m and plain\\n'")
        screen = shell.screen()
        assert "red and plain" in screen
        assert "\x1b[" not in screen.text
        assert screen.size == (40, 5)
        assert len(screen.lines) == 5
        assert screen.cursor.row >= 1 and screen.cursor.visible
        picture = screen.svg()
        assert picture.startswith("<svg") and ">red</text>" in picture
        assert screen._repr_svg_() == picture
        shell.resize(60, 10)
        assert shell.screen().size == (60, 10)


def test_keys_and_end_of_input_reach_the_program():
    with nbs.Session("cat") as cat:
        cat.key("a", "b", "Enter", text="x")
        cat.wait(pattern="xab")
        cat.eof()
        assert cat.wait(exit=True).detail == "0"


def test_output_is_read_once_or_from_anywhere():
    with nbs.Session("printf 'one\\ntwo\\n'") as once:
        once.wait(exit=True)
        new = once.read_new()
        assert str(new) == "one\r\ntwo\r\n"
        assert once.read_new().text == ""
        assert once.read_new(reader="other").text == new.text
        part = once.read(offset=5, strip=True)
        assert (part.text, part.offset, part.next_offset) == ("two\n", 5, 10)
        assert once.read(last=1, rendered=True).text == "two\n"


def test_follow_gives_output_as_it_arrives():
    with nbs.Session("for i in 1 2 3; do echo $i; sleep 0.1; done; exit 5") as counting:
        follow = counting.follow()
        text = "".join(chunk.text for chunk in follow)
        assert text == "1\r\n2\r\n3\r\n"
        assert follow.exit is not None and follow.exit.exit_code == 5
    with nbs.Session("yes") as endless:
        with endless.follow() as follow:
            assert "y" in next(follow).text
        for _ in endless.follow():
            break


def test_a_session_outlives_the_program_without_with():
    session = nbs.Session("sleep 60", name="kept").start()
    assert nbs.find("kept") == session.handle
    again = nbs.Session.open("@kept")
    with again:
        assert again.status().alive
    assert again.status().name == "kept"
    assert nbs.Session.ensure("kept").handle == session.handle
    session.kill()
    with pytest.raises(nbs.NotFound) as caught:
        again.status()
    assert (caught.value.exit, caught.value.kind) == (2, "not_found")
    with pytest.raises(nbs.NotFound):
        session.run("true")


def test_a_dead_session_is_restarted():
    with nbs.Session("exit 3") as dead:
        dead.wait(exit=True)
        again = dead.restart()
        assert again.wait(exit=True).detail == "3"
        again.kill()
        assert any(record["exit_code"] == 3 for record in nbs.events())


def test_wrong_arguments_are_told_before_anything_starts():
    with pytest.raises(nbs.BadArguments):
        nbs.Session(name="not a name").start()
    with pytest.raises(TypeError, match="colour"):
        nbs.Session(colour="red")
    with pytest.raises(nbs.BadArguments, match="NUL"):
        nbs.Session(title="a\0b").start()
    with pytest.raises(ValueError):
        nbs.Session(timeout="soon").start()


def test_errors_can_be_pickled():
    error = nbs.TimedOut("timed out after 2 s", kind="timeout", exit=3, answer={"handle": "x"})
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is nbs.TimedOut
    assert (str(again), again.exit, again.session, again.waited) == (str(error), 3, "x", 2)


def test_a_command_that_was_not_run_is_an_error():
    with nbs.Session("sleep 60") as once:
        with pytest.raises(nbs.NotRun):
            once.run("true")
    with nbs.Session() as shell:
        result = shell.run("exit 5")
        assert (result.state, result.exit_code) == ("ended", 5)
        with pytest.raises(nbs.NotRun):
            shell.run("true")


def test_a_machine_that_cannot_be_reached_is_a_lost_connection(tmp_path):
    subprocess.run([nbs.file(), "ts", "machine", "add", "nowhere", "false"], check=True)
    with pytest.raises(nbs.ConnectionLost) as caught:
        nbs.Session(machine="nowhere").start()
    assert caught.value.exit == 255
    assert isinstance(caught.value, ConnectionError)


def test_another_machine_is_used_like_this_one(tmp_path, monkeypatch):
    there = tmp_path / "there"
    there.mkdir(mode=0o700)
    words = ["env", "-i", f"HOME={there}", "PATH=/usr/bin:/bin", "sh"]
    subprocess.run([nbs.file(), "ts", "machine", "add", "box", *words], check=True)
    with nbs.Session(machine="box") as shell:
        assert shell.handle.startswith("box:")
        assert shell.run("echo $HOME").check().output == f"{there}\n"
        assert [info.handle for info in nbs.sessions(machine="box")] == [shell.handle]
        assert "echo $HOME" in shell.screen()
    subprocess.run([nbs.file(), "ts", "machine", "remove", "box"], check=True)


# Signals, forks, threads, the end of the interpreter.


def python(text, **options):
    script = "import nbs, os, signal, sys, threading\n" + text
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, **options)


def test_an_interrupt_ends_the_call_and_the_command():
    with nbs.Session() as shell:
        child = python(
            f"s = nbs.Session.open('{shell.handle}')\n"
            "print('ready', flush=True)\n"
            "try:\n    s.run('echo begun; sleep 1000')\n"
            "except KeyboardInterrupt:\n    print('interrupted', flush=True)\n"
        )
        assert child.stdout.readline() == "ready\n"
        shell.wait(pattern="begun")
        child.send_signal(signal.SIGINT)
        assert child.communicate()[0] == "interrupted\n"
        assert shell.run("echo usable").output == "usable\n"


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_with_ends_the_session_however_the_program_ends(how, eventually):
    child = python(
        "with nbs.Session() as s:\n    print(s.handle, flush=True)\n    s.run('sleep 1000')\n",
        stderr=subprocess.DEVNULL,
    )
    handle = child.stdout.readline().strip()
    shell = nbs.Session.open(handle)
    eventually(lambda: shell.status().fields["program"] == "sleep")
    child.send_signal(getattr(signal, how))
    child.communicate()
    eventually(lambda: not any(info.alive for info in nbs.sessions()))


def test_an_interrupt_while_a_session_starts_leaves_none(eventually):
    for _ in range(5):
        child = python(
            "print('ready', flush=True)\n"
            "while True:\n    with nbs.Session() as s:\n        pass\n",
            stderr=subprocess.DEVNULL,
        )
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        child.communicate()
        # A session that had just begun ends with its owner, a moment later.
        eventually(lambda: not any(info.alive for info in nbs.sessions()))


def test_the_end_of_the_interpreter_leaves_and_waits_for_nothing():
    child = python(
        "s = nbs.Session('yes', owner=os.getpid()).start()\n"
        "f = s.follow()\nnext(f)\n"
        "g = s.follow()\n"
        "threading.Thread(target=lambda: [None for _ in g], daemon=True).start()\n"
        "print(s.handle, flush=True)\n"
    )
    handle = child.communicate(timeout=60)[0].strip()
    assert child.returncode == 0
    nbs.Session.open(handle).wait(exit=True)


def test_a_forked_process_ends_nothing_of_its_parent():
    with nbs.Session() as shell:
        follow = shell.follow()
        pid = os.fork()
        if pid == 0:
            with shell:
                pass
            follow.close()
            os._exit(0)
        os.waitpid(pid, 0)
        assert shell.run("echo alive").output == "alive\n"
        assert next(follow).text
        follow.close()


def test_threads_use_one_session_and_several():
    results = []

    def work(shell, number):
        results.append(shell.run(f"echo {number}").output)

    with nbs.Session() as one, nbs.Session() as other:
        threads = [threading.Thread(target=work, args=((one, other)[n % 2], n)) for n in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(results) == sorted(f"{n}\n" for n in range(10))


def test_the_first_calls_of_threads_start_one_session():
    shell = nbs.Session()
    threads = [threading.Thread(target=lambda: shell.run("true")) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(nbs.sessions()) == 1
    shell.kill()


def test_a_program_that_ignores_sigchld_is_told_the_truth():
    old = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with nbs.Session() as shell:
            assert shell.run("(exit 3)").exit_code == 3
            with pytest.raises(nbs.NotFound):
                nbs.Session.open("00000000").status()
    finally:
        signal.signal(signal.SIGCHLD, old)


def test_a_thousand_calls_leave_no_descriptor_and_no_thread():
    before = os.listdir("/proc/self/fd")
    for _ in range(1000):
        with pytest.raises(nbs.NotFound):
            nbs.Session.open("00000000").exit_code()
    assert len(os.listdir("/proc/self/fd")) == len(before)
    assert threading.active_count() == 1


def test_the_history_has_each_command_and_its_output():
    with nbs.Session() as shell:
        shell.run("echo one")
        shell.run("echo two >&2; (exit 3)")
        failed = shell.history(failed=True)
        assert [(said["command"], said["exit_code"], said["source"]) for said in failed] == [
            ("echo two >&2; (exit 3)", 3, "run")
        ]
        assert shell.read(command=failed[0]["command_id"], strip=True).text == "two\n"
        assert [said["handle"] for said in nbs.history(grep="^echo one$")] == [shell.handle]


def test_the_file_is_found_beside_the_package(monkeypatch, tmp_path):
    monkeypatch.delenv("NBS_FILE")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(nbs.Error, match="NBS_FILE"):
        nbs.file()
    program = tmp_path / "nbs"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert nbs.file() == str(program)
    assert pathlib.Path(nbs.__file__).with_name("py.typed").exists()
