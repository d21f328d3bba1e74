//! `exec`: programs there, without a session.

use super::*;
use std::io::{Read, Write};

/// So many bytes that no line of them is like another.
pub(super) fn noise(count: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..count).map(|_| next()).collect()
}

/// The processes there that are none of nbs.
fn programs(there: &Elsewhere) -> Vec<String> {
    there.processes().into_iter().filter(|pid| !name_of(pid).starts_with("nbs-")).collect()
}

fn runs(there: &Elsewhere, name: &str) -> bool {
    programs(there).iter().any(|pid| name_of(pid) == name)
}

fn use_exec(there: &Elsewhere) {
    let exec = |words: &[&str]| there.ts(&[&["exec", "box"], words].concat());
    exec(&["pwd; echo err >&2; exit 7"]).code(7).stdout(format!("{}\n", there.home.display()));
    exec(&["--", "echo", "a  b", "'c  d'"]).code(0).stdout("a b c  d\n").silent();
    exec(&["--", "exit 124"]).code(124).silent();
    exec(&["kill -9 $$"]).code(137).silent();
    exec(&["nonsense"]).code(127).complains("nonsense");
    exec(&["/"]).code(126);
    let bytes = noise(3_000_000);
    there.scratch.ts_with_input(&["exec", "box", "cat"], &bytes).code(0).stdout(&bytes).silent();
    there.scratch.ts_with_input(&["exec", "box", "cat >&2; exit 1"], b"abc").code(1).stdout("");
}

#[test]
fn a_program_has_its_streams_and_its_exit_code_is_ours() {
    let there = Elsewhere::new();
    use_exec(&there);
    there.ts(&["exec", "-G", "box"]).code(1).stdout("").silent();
    there.ts(&["exec", "box"]).code(4).complains("missing COMMAND");
    there.ts(&["exec", "-l", "me", "box", "ls"]).code(4).complains("invalid option '-l'");
    there.ts(&["machine", "add", "gone", "sh", "-c", "echo it is gone >&2; exit 3"]).code(0);
    there.ts(&["exec", "gone", "ls"]).code(255).complains("it is gone");
}

#[test]
fn a_program_runs_where_there_is_only_busybox() {
    let there = Elsewhere::unadded();
    Root::new(&there).add(&there);
    use_exec(&there);
}

#[test]
fn each_stream_ends_by_itself() {
    let there = Elsewhere::new();
    let script = format!(
        r#"
# Its output ends while its input goes on.
mkfifo in
nbs-ts exec box 'echo all; exec >&-; cat >got' <in | {{ cat; echo end; echo more >&3; exec 3>&-; }} 3>in
# Its input ends while its output goes on.
nbs-ts exec box 'cat; echo after' </dev/null
# It reads no more.
yes | nbs-ts exec box 'exec <&-; until [ -e go ]; do sleep 0.01; done' &
wait_for_it() {{ wait $!; }}
touch {home}/go
wait_for_it
yes | nbs-ts exec box 'read line; exec <&-; echo $line'
echo "${{PIPESTATUS[*]}}"
nbs-ts exec box yes | head -1
echo "${{PIPESTATUS[*]}}"
cat {home}/got
"#,
        home = there.home.display()
    );
    there.scratch.bash(&script).code(0).stdout("all\nend\nafter\ny\n141 0\ny\n141 0\nmore\n").silent();
}

#[test]
fn a_signal_goes_there_and_all_processes_of_a_program_end_with_it() {
    let there = Elsewhere::new();
    let trap = "trap 'echo got it; exit 9' TERM; echo ready; sleep 1000 & wait";
    let mut call = start(there.scratch.command(links().join("nbs-ts")).args(["exec", "box", trap]));
    eventually("the program", || runs(&there, "sleep"));
    // As soon as it has said so, the trap is set.
    signal("TERM", &[call.pid().to_string()]);
    if !call.is_over() {
        eventually("its end", || call.is_over());
    }
    let ran = call.finish();
    assert!(ran.out() == "ready\ngot it\n" || ran.out().is_empty(), "{ran:?}");
    // Its background processes end with it, also those in sessions of their own.
    there.ts(&["exec", "box", "sleep 1000 & setsid sleep 1000 & exit 3"]).code(3).silent();
    eventually("their end", || !runs(&there, "sleep"));
    // So it does when its caller is killed.
    let call = there.scratch.start(&["exec", "box", "setsid sleep 1000; true"]);
    eventually("the program", || runs(&there, "sleep"));
    kill(&call.pid().to_string());
    eventually("its end", || !runs(&there, "sleep"));
    drop(call);
    // And when the far side is.
    let call = there.scratch.start(&["exec", "box", "trap '' TERM; setsid sleep 1000; true"]);
    eventually("the program", || runs(&there, "sleep"));
    let far: Vec<String> = there.processes().into_iter().filter(|pid| name_of(pid) == "nbs-far").collect();
    signal("KILL", &far);
    call.finish().code(255).complains("it is unknown whether it was done");
    eventually("its end", || programs(&there).is_empty());
}

#[test]
fn a_signal_ends_a_call_whose_output_nobody_reads_and_a_program_that_is_stopped() {
    let there = Elsewhere::new();
    let script = format!(
        r#"
mkfifo unread
exec 3<>unread
nbs-ts exec box 'head -c 500000 /dev/zero; touch done' >unread & call=$!
until [ -e {home}/done ]; do sleep 0.01; done
while kill -TERM $call 2>/dev/null; do sleep 0.01; done
wait $call; echo $?
# More than is on its way at once.
nbs-ts exec box 'touch begun; head -c 5000000 /dev/zero' >unread & call=$!
until [ -e {home}/begun ]; do sleep 0.01; done
while kill -TERM $call 2>/dev/null; do sleep 0.01; done
wait $call; echo $?
nbs-ts exec box 'echo $$ >stopped; kill -STOP $$' & call=$!
until grep -q '^State:.T' /proc/"$(cat {home}/stopped)"/status; do sleep 0.01; done 2>/dev/null
kill -TERM $call; wait $call; echo $?
"#,
        home = there.home.display()
    );
    there.scratch.bash(&script).code(0).stdout("143\n143\n143\n").silent();
}

#[test]
fn output_for_a_closed_stdout_is_an_error_and_its_absence_is_none() {
    let there = Elsewhere::new();
    let error = "cannot write to standard output: Bad file descriptor";
    there.scratch.bash("nbs-ts exec box 'echo hi' >&-").code(255).complains(error);
    there.scratch.bash("nbs-ts exec box 'exit 7' >&-").code(7).silent();
    there.scratch.bash("nbs-ts exec box 'echo hi' >/dev/null").code(0).silent();
}

#[test]
fn a_session_that_a_program_creates_goes_on() {
    let there = Elsewhere::new();
    let create = format!("PATH={}:$PATH; nbs-ts create --no-helper bash", links().display());
    let created = there.ts(&["exec", "box", &create]).code(0).silent();
    let session = format!("box:{}", created.out().trim_end());
    there.ts(&["run", &session, "echo on"]).code(0).stdout("on\n");
}

/// The transport is killed again and again while much passes in both directions.
#[test]
fn a_program_goes_on_over_lost_connections_without_a_byte_lost_or_doubled() {
    let there = Elsewhere::unadded();
    there.add_line();
    let bytes = noise(24_000_000);
    let mut command = there.scratch.command(links().join("nbs-ts"));
    let mut call = command
        .args(["exec", "box", "tee got; echo end >&2; exit 5"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stdin, mut stdout) = (call.stdin.take().unwrap(), call.stdout.take().unwrap());
    let mut back = vec![0; bytes.len()];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            stdin.write_all(&bytes).unwrap();
            drop(stdin);
        });
        for piece in back.chunks_mut(2_000_000) {
            stdout.read_exact(piece).unwrap();
            if let Some(pid) = there.transport().first() {
                let _ = run(Command::new("kill").args(["-9", pid]));
            }
        }
        assert_eq!(stdout.read(&mut [0; 16]).unwrap(), 0);
    });
    assert_eq!(call.wait().unwrap().code(), Some(5));
    assert!(back == bytes && fs::read(there.home.join("got")).unwrap() == bytes);
}

#[test]
fn many_programs_run_at_once_and_one_that_nobody_reads_holds_up_none() {
    let there = Elsewhere::new();
    let mut command = there.scratch.command(links().join("nbs-ts"));
    command.args(["exec", "box", "cat /dev/zero"]).stdout(Stdio::piped());
    let mut unread = command.spawn().unwrap();
    let script = "for number in $(seq 40); do
        head -c 100000 /dev/zero | tr '\\0' x | nbs-ts exec box \"cat; exit $number\" | wc -c &
        done; wait";
    there.scratch.bash(script).code(0).stdout("100000\n".repeat(40)).silent();
    unread.kill().unwrap();
    unread.wait().unwrap();
}

#[test]
fn git_and_a_reader_that_does_not_wait_use_it_as_they_use_ssh() {
    let there = Elsewhere::new();
    let script = format!(
        r#"
set -e
export GIT_SSH_COMMAND='nbs-ts exec' GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_CONFIG_GLOBAL=/dev/null
git init -q --bare {home}/repo
git init -q here && cd here
head -c 3000000 /dev/urandom >file && git add . && git commit -qm one
git push -q box:repo HEAD:refs/heads/one
git clone -q -b one box:repo ../again
cmp file ../again/file
# It shares its pipes with who makes them so that nothing waits.
python3 - <<'EOF' | sha1sum | cut -c1-40
import os, subprocess, sys
data = b'0123456789abcdef' * 200000
read, write = os.pipe()
os.set_blocking(read, False)
os.set_blocking(write, False)
out_read, out_write = os.pipe()
os.set_blocking(out_write, False)
call = subprocess.Popen(['nbs-ts', 'exec', 'box', 'cat'], stdin=read, stdout=out_write)
os.close(read); os.close(out_write)
import threading
def feed():
    os.set_blocking(write, True)
    at = 0
    while at < len(data):
        at += os.write(write, data[at:at + 100000])
    os.close(write)
threading.Thread(target=feed).start()
while True:
    piece = os.read(out_read, 100000)
    if not piece:
        break
    sys.stdout.buffer.write(piece)
assert call.wait() == 0
EOF
python3 -c "import sys; sys.stdout.write('0123456789abcdef' * 200000)" | sha1sum | cut -c1-40
"#,
        home = there.home.display()
    );
    let ran = there.scratch.bash(&script).code(0);
    let sums: Vec<String> = ran.out().lines().map(str::to_owned).collect();
    assert!(sums.len() == 2 && sums[0] == sums[1], "{ran:?}");
}
