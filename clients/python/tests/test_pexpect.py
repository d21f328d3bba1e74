"""A little of nbs.pexpect; pexpect's own tests say more (in_place_of_pexpect.py)."""

import nbs
import nbs.pexpect as pexpect
import pytest
from nbs.pexpect import replwrap


def test_a_program_is_expected_to_print_things():
    with pexpect.spawn("cat", echo=False, encoding="utf-8", dimensions=(10, 40)) as child:
        assert child.getwinsize() == (10, 40)
        child.sendline("one two")
        assert child.expect(["never", r"o(n)e", pexpect.EOF]) == 1
        assert (child.before, child.after, child.match.group(1)) == ("", "one", "n")
        assert child.expect_exact([" two\r\n", pexpect.TIMEOUT]) == 0
        assert child.expect([pexpect.TIMEOUT], timeout=0.1) == 0
        with pytest.raises(pexpect.TIMEOUT):
            child.expect("never", timeout=0.1)
        assert [info.handle for info in nbs.sessions()] == [child.session.handle]
        child.sendeof()
        child.expect(pexpect.EOF)
        assert child.exitstatus == 0
    assert nbs.sessions() == []


def test_a_program_is_run_to_its_end():
    assert pexpect.run("sh -c 'echo hi; exit 3'", withexitstatus=True) == (b"hi\r\n", 3)
    command = """sh -c 'printf "name? "; read x; echo $x'"""
    output = pexpect.run(command, env={"PATH": "/bin"}, events={"name": "yes\n"}, encoding="utf-8")
    assert output.endswith("yes\r\n")


def test_shells_are_wrapped():
    shell = replwrap.bash()
    assert shell.run_command("cd /usr; pwd") == "/usr\r\n"
    with pytest.raises(ValueError, match="incomplete"):
        shell.run_command("echo '")
    shell.child.close()


def test_what_cannot_be_done_says_so():
    with pytest.raises(pexpect.ExceptionPexpect, match="preexec_fn"):
        pexpect.spawn("true", preexec_fn=print)
    with pytest.raises(pexpect.ExceptionPexpect, match="not found"):
        pexpect.spawn("no-such-program")


def test_a_spawn_that_is_forgotten_leaves_no_session():
    child = pexpect.spawn("sleep 1000")
    assert child.isalive()
    del child
    assert nbs.sessions() == []
