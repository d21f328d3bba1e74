use std::{fs, os::unix::net::UnixStream, path::PathBuf, process::Command};

use crate::support::{Ran, Running, Scratch, binary, eventually, run, signal, start};

/// Does this kernel do what --write-root promises? Asked for the way that the
/// program does not ask.
pub(crate) fn can_confine() -> bool {
    let ask = "import ctypes; print(ctypes.CDLL(None).syscall(444, None, 0, 1))";
    let ran = run(Command::new("python3").args(["-c", ask])).code(0).out();
    ran.trim().parse::<i32>().unwrap() >= 3
}

/// Runs the rest of its arguments under a kernel without some system calls; their numbers come first, with
/// commas between them.
const WITHOUT_CALLS: &str = r#"
import ctypes, os, struct, sys
LOAD, IS, RETURN, ALLOW, ENOSYS = 0x20, 0x15, 0x06, 0x7fff0000, 0x00050000 | 38
code = [(LOAD, 0, 0, 0)]
for call in sys.argv[1].split(','): code += [(IS, 0, 1, int(call)), (RETURN, 0, 0, ENOSYS)]
code += [(RETURN, 0, 0, ALLOW)]
length = len(code)
code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *each) for each in code))
class Program(ctypes.Structure): _fields_ = [('length', ctypes.c_ushort), ('code', ctypes.c_void_p)]
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Program(length, ctypes.addressof(code)))) == 0
os.execvp(sys.argv[2], sys.argv[2:])
"#;

/// landlock_create_ruleset(2) of Linux 5.13; and openat2(2) of 5.6, besides.
const WITHOUT_LANDLOCK: [&str; 2] = ["444", "444,437"];

/// A test's folders: one to write to, and one not to, with a file.
struct Places {
    scratch: Scratch,
    root: PathBuf,
    outside: PathBuf,
}

impl Places {
    fn new() -> Places {
        let scratch = Scratch::new();
        let (root, outside) = (scratch.path.join("root"), scratch.path.join("outside"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "as it was").unwrap();
        Places { scratch, root, outside }
    }

    /// A session confined to `root`. If the kernel cannot confine, the call must have failed without a trace.
    fn create(&self, way: &str, command: &str) -> Option<String> {
        let root = format!("--write-root={}", self.root.display());
        let ran = self.scratch.ts(&["create", way, &root, command]);
        if can_confine() {
            return Some(ran.code(0).silent().out().trim_end().to_owned());
        }
        self.refused(ran);
        None
    }

    fn refused(&self, ran: Ran) {
        ran.code(1).stdout("").complains("the kernel has no Landlock");
        assert_eq!(self.scratch.ts(&["list"]).out(), "");
        let left = fs::read_dir(self.scratch.state().join("sessions")).unwrap().count();
        assert_eq!(left, 0, "of a session that was refused");
    }

    fn helper(&self) -> Running {
        self.helper_by(self.scratch.command(binary()))
    }

    fn helper_by(&self, mut command: Command) -> Running {
        let helper = start(command.arg("ts-helper"));
        eventually("the helper", || UnixStream::connect(self.scratch.state().join("helper.sock")).is_ok());
        helper
    }

    /// Fails unless the outside has only its first content.
    fn nothing_got_out(&self) {
        assert_eq!(fs::read_to_string(self.outside.join("file")).unwrap(), "as it was");
        assert_eq!(fs::read_dir(&self.outside).unwrap().count(), 1);
    }
}

/// Each must fail, and change nothing. `$r` is inside, `$o` outside.
const ATTACKS: [&str; 16] = [
    ": > $o/file",
    "echo x >> $o/file",
    "echo x > $o/new",
    "truncate -s0 $o/file",
    "rm -f $o/file",
    "mv $o/file $r/",
    "ln $o/file $r/hard && : > $r/hard",
    "ln -s $o/file $r/soft; : > $r/soft",
    "mv $r/mine $o/",
    "mkdir $o/folder",
    "mkfifo $o/fifo",
    "ln -s x $o/link",
    "mknod $r/disk b 8 0",
    "exec 3< $o/file && : > /proc/self/fd/3",
    "bash -c '(setsid bash -c \"echo x > $o/new\" &)'; sleep 0.3; test -e $o/new",
    "cd $o && python3 -c 'import os; os.truncate(\"file\", 0)'",
];

fn attack(places: &Places, handle: &str) {
    let scratch = &places.scratch;
    let variables = format!("r={} o={}", places.root.display(), places.outside.display());
    scratch.ts(&["run", handle, &format!("export {variables}; echo mine > $r/mine")]).code(0);
    for attack in ATTACKS {
        let ran = scratch.ts(&["run", handle, attack]);
        assert!(!ran.status.success(), "{ran:?}");
        places.nothing_got_out();
    }
}

#[test]
fn a_confined_session_writes_below_its_root_and_to_its_terminal() {
    let places = Places::new();
    let Some(handle) = places.create("--no-helper", "bash") else { return };
    let scratch = &places.scratch;
    let command = format!(
        "cd {} && mkdir -p a/b && echo one > a/b/f && mv a/b/f g && ln g h && rm a/b -r && cat h && \
         echo two > /dev/null && echo three > /dev/tty && cat <<< four && f=$(mktemp) && echo five > $f && cat $f",
        places.root.display()
    );
    scratch.ts(&["run", &handle, &command]).code(0).stdout("one\nthree\nfour\nfive\n").silent();
    let roots = format!("[\"{}\"]", places.root.display());
    assert_eq!(scratch.ts(&["status", "--json", &handle]).field("write_roots"), roots);
    let own = scratch.folder(&handle).join("tmp");
    scratch.ts(&["run", &handle, "echo $TMPDIR"]).code(0).stdout(format!("{}\n", own.display()));

    // Completions are written as ever, and bash minds not that its history is not.
    assert_eq!(scratch.ts(&["run", &handle, "(exit 7)"]).status.code(), Some(7));
    scratch.ts(&["send", &handle, "exit 3"]).code(0);
    scratch.wait_for_end(&handle);
    scratch.ts(&["exit-code", &handle]).code(0).stdout("3\n");
    let end = scratch.ts(&["read", "--strip", "--last=2", &handle]).code(0).out();
    assert!(end.replace('\r', "").ends_with("$ exit 3\nexit\n"), "{end:?}");
    scratch.ts(&["kill", &handle]).code(0);
    assert!(!own.exists());
}

#[test]
fn a_confined_session_writes_nowhere_else() {
    let places = Places::new();
    let Some(handle) = places.create("--no-helper", "bash") else { return };
    attack(&places, &handle);
}

#[test]
fn the_helper_confines_as_well() {
    let places = Places::new();
    let _helper = places.helper();
    let Some(handle) = places.create("--require-helper", "bash") else { return };
    attack(&places, &handle);
    let own = scratch_tmp(&places, &handle);
    places.scratch.ts(&["run", &handle, "echo $TMPDIR; touch $TMPDIR/x"]).code(0).stdout(format!("{own}\n"));
}

fn scratch_tmp(places: &Places, handle: &str) -> String {
    places.scratch.folder(handle).join("tmp").display().to_string()
}

#[test]
fn a_confined_session_cannot_have_others_write_for_it() {
    let places = Places::new();
    let scratch = &places.scratch;
    let _helper = places.helper();
    for way in ["--no-helper", "--require-helper"] {
        let Some(handle) = places.create(way, "bash") else { return };
        let other = scratch.create("cat");
        let o = places.outside.display();
        let nbs = binary().canonicalize().unwrap();
        let ts = format!("{} ts", nbs.display());
        let sock = scratch.state().join("helper.sock");
        let base = places.root.join("base.py");
        let client = format!(
            "import os, socket, sys\n\
             s = socket.socket(socket.AF_UNIX); s.connect('{}')\n\
             if len(sys.argv) > 1 and os.fork(): os._exit(0)\n\
             s.sendall(b'touch {o}/new'); s.shutdown(1)\n\
             assert s.recv(1) == b'F'\n",
            sock.display()
        );
        fs::write(&base, client).unwrap();
        for attack in [
            format!("echo x > {}/input.fifo", scratch.folder(&other).display()),
            format!("{ts} send {other} x"),
            format!("{ts} key {other} x"),
            format!("{ts} kill {other}"),
            format!("{ts} create --require-helper 'touch {o}/new'"),
            format!("{ts} create --no-helper 'touch {o}/new'"),
            // It may make a state directory, but no further terminal.
            format!("NBS_TS_HOME={}/state {ts} create --no-helper 'touch {o}/new'", places.root.display()),
            format!("python3 {}", base.display()),
            format!("python3 {} forked; sleep 0.5; false", base.display()),
            format!("setsid -w env -i {} {}", which("python3"), base.display()),
            // Its mark is two limits; to have another, one would have to be raised.
            format!("(ulimit -x 5 && python3 {})", base.display()),
            "kill -0 $PPID".to_owned(),
        ] {
            let ran = scratch.ts(&["run", &handle, &attack]);
            assert!(!ran.status.success(), "{ran:?}");
            assert!(!ran.out().contains("internal error at"), "{ran:?}");
            places.nothing_got_out();
        }
        // The other session has seen nothing of all this, and it may talk to itself.
        scratch.ts(&["send", &other, "sound"]).code(0);
        scratch.ts(&["wait-pattern", &other, "sound\r\nsound\r\n"]).code(0);
        assert_eq!(scratch.ts(&["read", &other]).out(), "sound\r\nsound\r\n");
        let own = format!("{ts} status --json $NBS_TS_SESSION | grep -c running");
        let ran = scratch.ts(&[
            "run",
            &handle,
            &format!("export NBS_TS_HOME={}; {own}", scratch.state().display()),
        ]);
        ran.code(0).stdout("1\n");
        scratch.ts(&["kill", &handle, &other]).code(0);
    }
}

/// Waits until its own session's relay has gone, then sends requests to the helper and the relay of another
/// session, and writes their answers to a file.
const SURVIVOR: &str = r#"
import os, socket, sys, time
own, helper, other, outside, report = sys.argv[1:]
def ask(path, words):
    try:
        s = socket.socket(socket.AF_UNIX); s.connect(path)
        s.sendall(words); s.shutdown(1)
        return s.recv(1)
    except OSError:
        return b''
while ask(own, b'state\n'):
    time.sleep(0.05)
said = ask(helper, b'touch %s/new' % outside.encode()), ask(other, b'state\n')
open(report + '.new', 'w').write(repr(said))
os.rename(report + '.new', report)
"#;

#[test]
fn processes_that_outlive_a_confined_session_stay_confined() {
    let places = Places::new();
    let scratch = &places.scratch;
    let _helper = places.helper();
    let sock = |handle: &str| scratch.folder(handle).join("relay.sock").display().to_string();
    for way in ["--no-helper", "--require-helper"] {
        for end in ["exit", "kill"] {
            let Some(handle) = places.create(way, "bash") else { return };
            let other = scratch.create("cat");
            let report = places.root.join(format!("{way}-{end}"));
            let script = places.root.join("survivor.py");
            fs::write(&script, SURVIVOR).unwrap();
            let survivor = format!(
                "(setsid {} {} {} {} {} {} {} </dev/null >/dev/null 2>&1 &)",
                which("python3"),
                script.display(),
                sock(&handle),
                scratch.state().join("helper.sock").display(),
                sock(&other),
                places.outside.display(),
                report.display()
            );
            scratch.ts(&["run", &handle, &survivor]).code(0);
            match end {
                "exit" => drop(scratch.ts(&["send", &handle, "exit"]).code(0)),
                _ => {
                    let relay = fs::read_to_string(scratch.folder(&handle).join("daemon_pid")).unwrap();
                    signal("-KILL", relay.trim());
                }
            }
            eventually("the survivor's report", || report.exists());
            assert_eq!(fs::read_to_string(&report).unwrap(), "(b'', b'')", "{way} {end}");
            places.nothing_got_out();
        }
    }
}

fn which(program: &str) -> String {
    let ran = run(Command::new("python3").args(["-c", "import sys; print(sys.executable)"]));
    let found = ran.code(0).out().trim_end().to_owned();
    assert!(found.contains(program.trim_end_matches('3')), "{found}");
    found
}

#[test]
fn create_fails_if_the_kernel_cannot_confine() {
    let places = Places::new();
    let root = format!("--write-root={}", places.root.display());
    let nbs = binary();
    let without = |calls: &str| {
        let mut command = places.scratch.command("python3");
        command.args(["-c", WITHOUT_CALLS, calls]).arg(&nbs);
        command
    };
    for calls in WITHOUT_LANDLOCK {
        places.refused(run(without(calls).args(["ts", "create", "--no-helper", &root, "bash"])));
    }

    // A helper that cannot confine, asked by a caller that could.
    let command = without(WITHOUT_LANDLOCK[0]);
    let _helper = places.helper_by(command);
    places.refused(places.scratch.ts(&["create", "--require-helper", &root, "bash"]));
    places.refused(places.scratch.ts(&["create", &root, "bash"]));
    // It serves all others.
    let open = places.scratch.ts(&["create", "--require-helper", "cat"]).code(0).out();
    places.scratch.ts(&["kill", open.trim_end()]).code(0);
}

/// The kernel does not report who is confined, so two limits that bind nothing mark it.
#[test]
fn a_confined_process_gets_an_error() {
    let (scratch, handle) = Scratch::with_session("cat");
    let confined = |words: &[&str]| {
        let mut command = scratch.command("prlimit");
        run(command.args(["--locks=1000:1000", "setpriv", "--no-new-privs", "nbs-ts"]).args(words))
    };
    for words in [&["send", &handle, "x"][..], &["wait-pattern", &handle, "x"], &["pwd", &handle]] {
        confined(words).code(1).complains("rejects this process, which is confined");
    }
    // It may look, and only look.
    confined(&["status", &handle]).code(0).stdout("alive\n");
    confined(&["read", &handle]).code(0).stdout("");
    // Its activity is unknown, but it is listed.
    for words in [&["status", "--json", &handle][..], &["list", "--json"], &["list", "--long", "--json"]] {
        let told = confined(words).code(0);
        assert_eq!([told.field("state"), told.field("activity")], ["\"alive\"", "null"], "{told:?}");
    }
    scratch.ts(&["send", &handle, "sound"]).code(0);
    scratch.ts(&["wait-pattern", &handle, "sound\r\nsound\r\n"]).code(0);
    scratch.ts(&["eof", &handle]).code(0);
    scratch.wait_for_end(&handle);
    confined(&["send", &handle, "x"]).code(1).complains("has ended with exit code 0");
}

#[test]
fn roots_that_would_confine_nobody_are_refused() {
    let places = Places::new();
    let scratch = &places.scratch;
    let file = places.outside.join("file");
    std::os::unix::fs::symlink(scratch.state(), places.root.join("link")).unwrap();
    scratch.create("cat");
    let through = places.root.join("link/sessions");
    for (root, why) in [
        (scratch.path.clone(), "the state directory"),
        ("/".into(), "the state directory"),
        (scratch.state(), "the state directory"),
        (scratch.state().join("sessions"), "the state directory"),
        (through, "the state directory"),
        (places.root.join("missing"), "No such file"),
        (file, "Not a directory"),
    ] {
        let option = format!("--write-root={}", root.display());
        scratch.ts(&["create", "--no-helper", &option, "true"]).code(1).stdout("").complains(why);
    }
    // A slash at the end leads past no link.
    let link = places.root.join("theirs");
    std::os::unix::fs::symlink(&places.outside, &link).unwrap();
    if std::os::unix::fs::lchown(&link, Some(65_534), None).is_ok() {
        for end in ["", "/", "/."] {
            let option = format!("--write-root={}{end}", link.display());
            scratch.ts(&["create", "--no-helper", &option, "true"]).code(1).complains("another user's link");
        }
    }
    // Nor is a session made if confined processes could not be recognised.
    if can_confine() {
        let create = format!("nbs-ts create --no-helper --write-root={} true", places.root.display());
        scratch.bash(&format!("ulimit -x 5; {create}")).code(1).stdout("").complains("hard limit");
    }
    scratch.ts(&["create", "--write-root=", "true"]).code(4).complains("--write-root");
    assert_eq!(scratch.ts(&["list"]).out().lines().count(), 1);
}

#[test]
fn ensure_takes_no_session_that_may_write_elsewhere() {
    let places = Places::new();
    let scratch = &places.scratch;
    let root = format!("--write-root={}", places.root.display());
    let outside = format!("--write-root={}", places.outside.display());
    let open = scratch.create_with(&["--name=open"], "bash");
    let ensure = |options: &[&str]| scratch.ts(&[&["ensure", "--no-helper"], options].concat());
    ensure(&["--name=open"]).code(0).stdout(format!("{open}\n"));
    ensure(&["--name=open", &root]).code(1).complains("it may write everywhere");
    if can_confine() {
        let confined = ensure(&["--name=shut", &root]).code(0).out();
        ensure(&["--name=shut", &root]).code(0).stdout(&confined);
        ensure(&["--name=shut", &root, &outside]).code(0).stdout(&confined);
        ensure(&["--name=shut", &outside]).code(1).complains("it may write to");
    }
}

#[test]
fn a_temporary_folder_however_deep_and_closed_goes_with_its_session() {
    let places = Places::new();
    let Some(handle) = places.create("--no-helper", "bash") else { return };
    let scratch = &places.scratch;
    let deep = "import os\nfor _ in range(3000): os.mkdir('d'); os.chdir('d')\nopen('f', 'w')";
    scratch.ts(&["run", &handle, &format!("cd $TMPDIR && python3 -c \"{deep}\"")]).code(0);
    scratch.ts(&[
        "run",
        &handle,
        "cd $TMPDIR && mkdir shut shut/in && touch shut/in/f && chmod 0 shut/in shut",
    ]);
    // Without the descriptors, or the stack, that this depth would take.
    scratch.bash(&format!("ulimit -n 64; nbs-ts kill {handle}")).code(0).silent();
    assert!(!scratch.folder(&handle).exists());
    assert_eq!(fs::read_dir(scratch.state().join("sessions")).unwrap().count(), 0);
}
