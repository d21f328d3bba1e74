//! The peers that the sockets of nbs serve: no process that is confined more than their owner.

mod page;

use std::{
    fs,
    os::unix::{fs::FileTypeExt, net::UnixStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    confined::can_confine,
    machines::{Elsewhere, name_of},
    page::Page,
    support::{Ran, Running, Scratch, copy_of_binary, eventually, run, signal, start, state_of},
};

/// The beginning of all scripts in a jail.
const PYTHON: &str = r#"
import glob, os, socket, sys
PATIENCE = 60
def reach(path):
    there = os.open(os.path.dirname(path), os.O_PATH)
    s = socket.socket(socket.AF_UNIX)
    s.connect('/proc/self/fd/%d/%s' % (there, os.path.basename(path)))
    s.settimeout(PATIENCE)
    return s
def answer(s):
    try:
        return s.recv(4096)
    except TimeoutError:
        return b'still open'
    except OSError:
        return b''
def hand_over(s, descriptors):
    try:
        socket.send_fds(s, [b'C'], descriptors)
    except OSError:
        # It was refused before.
        pass
def report(path, what):
    open(path + '.new', 'w').write(what)
    os.rename(path + '.new', path)
"#;

/// A session that may write to one directory only, among others that may write everywhere.
struct Jail<'a> {
    scratch: &'a Scratch,
    handle: String,
    root: PathBuf,
    outside: PathBuf,
}

impl Jail<'_> {
    /// `None` if the kernel cannot confine, and has refused to.
    fn new(scratch: &Scratch) -> Option<Jail<'_>> {
        let (root, outside) = (scratch.path.join("root"), scratch.path.join("outside"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&outside).unwrap();
        let option = format!("--write-root={}", root.display());
        let ran = scratch.ts(&["create", "--no-helper", &option, "bash"]);
        if !can_confine() {
            ran.code(1).complains("the kernel has no Landlock");
            return None;
        }
        let handle = ran.code(0).silent().out().trim_end().to_owned();
        Some(Jail { scratch, handle, root, outside })
    }

    /// Runs a script, and returns its output.
    fn python(&self, script: &str, words: &[&str]) -> String {
        let file = self.root.join("script.py");
        fs::write(&file, format!("{PYTHON}{script}")).unwrap();
        self.run(&format!("python3 {} {}", file.display(), words.join(" ")))
    }

    fn run(&self, command: &str) -> String {
        self.scratch.ts(&["run", "--timeout=110", &self.handle, command]).code(0).out()
    }

    /// Waits for a script's end, and returns its file in the jail.
    fn reports(&self, name: &str) -> String {
        let file = self.root.join(name);
        eventually("the report of a script", || file.exists());
        let said = fs::read_to_string(&file).unwrap();
        fs::remove_file(file).unwrap();
        said
    }

    fn nothing_got_out(&self) {
        assert_eq!(fs::read_dir(&self.outside).unwrap().count(), 0);
    }

    fn file(&self, name: &str) -> String {
        self.root.join(name).display().to_string()
    }
}

fn stop(pid: &str) {
    signal("-STOP", pid);
    eventually("its being stopped", || state_of(pid) == Some('T'));
}

fn pids() -> Vec<String> {
    let names = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).collect()
}

/// The processes of a test, those on its other machine, too.
fn processes_below(folder: &Path) -> Vec<String> {
    let mark = folder.display().to_string();
    let is_one = |pid: &String| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let is_mark = |entry: &[u8]| {
            let entry = String::from_utf8_lossy(entry);
            entry.split_once('=').is_some_and(|(name, value)| {
                ["HOME", "NBS_TS_HOME"].contains(&name) && value.starts_with(&mark)
            })
        };
        environment.split(|byte| *byte == 0).any(is_mark)
    };
    pids().into_iter().filter(is_one).collect()
}

/// The inodes of the sockets that a process has open.
fn sockets(pid: &str) -> Vec<String> {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let target = |link: fs::DirEntry| fs::read_link(link.path()).ok()?.into_os_string().into_string().ok();
    let sockets = links.filter_map(target);
    sockets.filter_map(|name| Some(name.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())).collect()
}

/// The lines of a table of /proc/net for these sockets, as words.
fn lines_of(table: &str, column: usize, inodes: &[String]) -> Vec<Vec<String>> {
    let table = fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
    let lines = table.lines().map(|line| line.split_ascii_whitespace().map(str::to_owned).collect());
    lines.filter(|line: &Vec<String>| line.get(column).is_some_and(|inode| inodes.contains(inode))).collect()
}

/// All Unix sockets in a directory and below.
fn socket_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(socket_files(&entry.path()));
        } else if kind.is_socket() {
            found.push(entry.path());
        }
    }
    found
}

/// The socket of the far side of a machine, and the process that listens on it.
fn far_side(there: &Elsewhere) -> (PathBuf, String) {
    let socket = socket_files(&there.home.join(".nbs-ts/far")).pop().unwrap();
    let serves = |pid: &&String| {
        let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.contains("\0serve\0")
    };
    let processes = there.processes();
    (socket, processes.iter().find(serves).unwrap().clone())
}

#[test]
fn a_confined_session_uses_no_bridge_that_runs() {
    let there = Elsewhere::new();
    let scratch = &there.scratch;
    let far = there.create("cat");
    let Some(jail) = Jail::new(scratch) else { return };
    for attack in [
        format!("nbs-ts send {far} x"),
        format!("nbs-ts key {far} x"),
        format!("nbs-ts run {far} x"),
        format!("nbs-ts kill {far}"),
        format!("nbs-ts create --on=box --no-helper 'touch {}/new'", jail.outside.display()),
        format!("nbs-ts exec box 'touch {}/new'", jail.outside.display()),
        format!("nbs-ts cp /etc/passwd box:{}/new", jail.outside.display()),
        "nbs-ts forward --reverse box 0:localhost:1".into(),
    ] {
        let ran = scratch.ts(&["run", &jail.handle, &attack]);
        assert_eq!(ran.status.code(), Some(255), "{ran:?}");
        assert!(ran.out().contains("is confined"), "{ran:?}");
        jail.nothing_got_out();
    }
    there.ts(&["send", &far, "sound"]).code(0);
    there.ts(&["wait-pattern", &far, "sound\r\nsound\r\n"]).code(0);
    assert_eq!(there.ts(&["read", &far]).out(), "sound\r\nsound\r\n");
}

/// Passes two pipes to the far side, as the bridge's transport does, and prints its first bytes. With one
/// more word, a child goes on after its parent has ended.
const CONNECT_TO_FAR: &str = r#"
path, file = sys.argv[1:3]
s = reach(path)
(ours, theirs), (input, ours_in) = os.pipe(), os.pipe()
hand_over(s, [input, theirs])
os.close(theirs)
if len(sys.argv) > 3 and os.fork():
    os._exit(0)
report(file, repr(os.read(ours, 4096)))
"#;

#[test]
fn a_confined_session_has_the_far_side_of_its_machine_execute_nothing() {
    let there = Elsewhere::new();
    let scratch = &there.scratch;
    let far = there.create("cat");
    let Some(jail) = Jail::new(scratch) else { return };
    let (socket, _) = far_side(&there);
    for more in ["", "by-a-child"] {
        let file = jail.file("said");
        jail.python(CONNECT_TO_FAR, &[&socket.display().to_string(), &file, more]);
        assert_eq!(jail.reports("said"), "b''", "{more}");
    }
    // It serves its own bridge as before.
    there.ts(&["send", &far, "sound"]).code(0);
    there.ts(&["wait-pattern", &far, "sound\r\nsound\r\n"]).code(0);
}

/// Passes a socket's bytes, descriptors too, on to another.
const FORWARDER: &str = r#"
path, real = sys.argv[1:]
door = socket.socket(socket.AF_UNIX)
os.chdir(os.path.dirname(path))
door.bind(os.path.basename(path))
door.listen()
if os.fork():
    os._exit(0)
os.setsid()
for stream in range(3):
    os.close(stream)
while True:
    came, _ = door.accept()
    _, descriptors, _, _ = socket.recv_fds(came, 8, 4)
    there = reach(real)
    hand_over(there, descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    answer(there)
    came.close()
"#;

#[test]
fn a_bridge_of_a_confined_session_s_own_gets_no_further_than_the_session() {
    let there = Elsewhere::new();
    let scratch = &there.scratch;
    there.create("cat");
    let Some(jail) = Jail::new(scratch) else { return };
    let (state, own) = (scratch.state(), jail.root.join("state"));
    let copy = format!(
        "mkdir -p -m 700 {own}/bridges && cp {state}/machines {own}/ && cp {state}/bridges/*.id {own}/bridges/",
        own = own.display(),
        state = state.display()
    );
    let create = |own: &Path| {
        format!(
            "NBS_TS_HOME={} nbs-ts create --on=box --no-helper 'touch {}/new'",
            own.display(),
            jail.outside.display()
        )
    };
    // The session cannot read it.
    let ran = scratch.ts(&["run", "--timeout=110", &jail.handle, &copy]);
    assert!(ran.out().contains("Permission denied"), "{ran:?}");
    scratch.bash(&copy).code(0);
    // With a copy of the number that the far side knows the bridge by.
    let ran = scratch.ts(&["run", &jail.handle, &create(&own)]);
    assert_eq!(ran.status.code(), Some(255), "{ran:?}");
    jail.nothing_got_out();
    // The same with a home of its own, in which a forwarder replaces the far side.
    let home = jail.root.join("there");
    let (socket, _) = far_side(&there);
    let door = home.join(".nbs-ts/far").join(socket.file_name().unwrap());
    jail.run(&format!("mkdir -p -m 700 {}", door.parent().unwrap().display()));
    jail.run(&format!("chmod 700 {}", home.join(".nbs-ts").display()));
    jail.python(FORWARDER, &[&door.display().to_string(), &socket.display().to_string()]);
    let other = jail.root.join("other");
    jail.run(&format!("cp -r {} {}", own.display(), other.display()));
    jail.run(&format!("echo 'box env HOME={} sh' > {}", home.display(), other.join("machines").display()));
    let ran = scratch.ts(&["run", &jail.handle, &create(&other)]);
    assert_eq!(ran.status.code(), Some(255), "{ran:?}");
    jail.nothing_got_out();
}

/// Connects, sends something, leaves the connection to a child, and ends; the child reports the answer.
const LEAVE: &str = r#"
path, words, file = sys.argv[1:]
s = reach(path)
if words == 'pipes':
    (ours, theirs), (input, ours_in) = os.pipe(), os.pipe()
    hand_over(s, [input, theirs])
    os.close(theirs)
else:
    s.sendall(words.encode().decode('unicode_escape').encode())
report(file + '.pid', str(os.getpid()))
if os.fork():
    os._exit(0)
# A PID is not free while there is a process group of that number.
os.setsid()
report(file, repr(os.read(ours, 4096) if words == 'pipes' else answer(s)))
"#;

/// Takes a PID as soon as it is free, says so, and keeps it; ends if another process has been faster.
const TAKE_PID: &str = r#"
import os, signal, sys, time
wanted = int(sys.argv[1])
begun = time.monotonic()
while True:
    if time.monotonic() > begun + 5:
        sys.exit(1)
    try:
        with open('/proc/sys/kernel/ns_last_pid', 'w') as last:
            last.write(str(wanted - 1))
    except OSError:
        pass
    pid = os.fork()
    if pid == 0:
        if os.getpid() == wanted:
            signal.pause()
        os._exit(0)
    if pid == wanted:
        break
    os.waitpid(pid, 0)
signal.signal(signal.SIGTERM, lambda *_: (os.kill(wanted, signal.SIGKILL), os._exit(0)))
open(sys.argv[2], 'w').close()
signal.pause()
"#;

/// An unconfined process that has a PID, until this is dropped.
struct Taken(Running);

impl Taken {
    /// `None`: any other process has it, and for how long is not known.
    fn take(pid: &str, folder: &Path) -> Option<Taken> {
        let ready = folder.join("taken");
        let mut taken = start(Command::new("python3").args(["-c", TAKE_PID, pid, ready.to_str().unwrap()]));
        eventually("its PID being another's", || ready.exists() || taken.is_over());
        fs::remove_file(ready).ok().map(|()| Taken(taken))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        signal("-TERM", &self.0.pid().to_string());
        eventually("its end", || self.0.is_over());
    }
}

/// While a server is stopped, a confined process sends something to it, leaves the connection to a child, and
/// ends, and its PID goes to an unconfined process. There must be no answer.
fn give_pid_away(jail: &Jail<'_>, socket: &Path, words: &str, server: &str) {
    stop(server);
    let give = |attempt: u32| {
        let said = format!("said{attempt}");
        jail.python(LEAVE, &[&socket.display().to_string(), words, &jail.file(&said)]);
        let taken = Taken::take(&jail.reports(&format!("{said}.pid")), &jail.scratch.path)?;
        Some((said, taken))
    };
    let (said, _taken) = (0..10).find_map(give).expect("another process was faster each time");
    signal("-CONT", server);
    assert_eq!(jail.reports(&said), "b''", "{}", socket.display());
}

/// Runs the rest of its arguments under a kernel that lacks the features in its first: `pidfd` (SO_PEERPIDFD,
/// Linux 6.5), `netlink` (netlink(7), which lists sockets).
const KERNEL_WITHOUT: &str = r#"
import ctypes, os, struct, sys
LOAD, IS, RETURN, ALLOW, ERROR = 0x20, 0x15, 0x06, 0x7fff0000, 0x00050000
EAFNOSUPPORT, ENOPROTOOPT, SO_PEERPIDFD = 97, 92, 77
machine = os.uname().machine
rules = {
    'netlink': ({'x86_64': 41, 'aarch64': 198}[machine], 0, socket.AF_NETLINK, EAFNOSUPPORT),
    'pidfd': ({'x86_64': 55, 'aarch64': 209}[machine], 2, SO_PEERPIDFD, ENOPROTOOPT),
}
code = []
for rule in sys.argv[1].split(','):
    call, argument, value, error = rules[rule]
    code += [(LOAD, 0, 0, 0), (IS, 0, 3, call), (LOAD, 0, 0, 16 + 8 * argument), (IS, 0, 1, value),
        (RETURN, 0, 0, ERROR | error)]
code.append((RETURN, 0, 0, ALLOW))
length = len(code)
code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *each) for each in code))
class Program(ctypes.Structure): _fields_ = [('length', ctypes.c_ushort), ('code', ctypes.c_void_p)]
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Program(length, ctypes.addressof(code)))) == 0
os.execvp(sys.argv[2], sys.argv[2:])
"#;

/// Calls `nbs-ts create` under such a kernel.
fn create_without(lacking: &str, scratch: &Scratch, words: &[&str]) -> Ran {
    let mut command = scratch.command("python3");
    command.arg("-c").arg(format!("{PYTHON}{KERNEL_WITHOUT}"));
    run(command.args([lacking, "nbs-ts", "create", "--no-helper"]).args(words))
}

#[test]
fn a_kernel_that_does_not_keep_who_connected_admits_nobody_by_a_pid_left_to_another() {
    let scratch = Scratch::new();
    let other = create_without("pidfd", &scratch, &["cat"]).code(0).out().trim_end().to_owned();
    scratch.ts(&["send", &other, "sound"]).code(0);
    let Some(jail) = Jail::new(&scratch) else { return };
    let socket = scratch.folder(&other).join("relay.sock");
    assert_eq!(jail.python(KNOCK, &[&socket.display().to_string()]), "b''\n");
    give_pid_away(&jail, &socket, "'place\\n'", scratch.file(&other, "daemon_pid").trim());
}

#[test]
fn without_socket_diagnostics_confinement_is_refused_and_others_are_served() {
    let scratch = Scratch::new();
    let create = |words: &[&str]| create_without("pidfd,netlink", &scratch, words);
    let other = create(&["cat"]).code(0).out().trim_end().to_owned();
    // A confined process of another test may be in the way for a moment.
    eventually("its being served", || scratch.ts(&["send", &other, "sound"]).status.success());
    let Some(jail) = Jail::new(&scratch) else { return };
    let option = format!("--write-root={}", jail.root.display());
    create(&[&option, "cat"]).code(1).stdout("").complains("CONFIG_UNIX_DIAG");
    // A relay that has no free descriptors still recognises processes that others have confined.
    let socket = scratch.folder(&other).join("relay.sock");
    assert_eq!(jail.python(KNOCK, &[&socket.display().to_string()]), "b''\n");
    give_pid_away(&jail, &socket, "'state\\n'", scratch.file(&other, "daemon_pid").trim());
}

/// For a connection from another network namespace, the kernel does not show the process at its other end.
#[test]
fn a_call_from_another_network_namespace_is_served_and_a_confined_one_is_not() {
    let (scratch, other) = Scratch::with_session("cat");
    let Some(jail) = Jail::new(&scratch) else { return };
    let apart = "unshare --user --map-root-user --net";
    let made = run(Command::new("bash").args(["-c", &format!("{apart} true")]));
    if made.status.success() {
        scratch.bash(&format!("{apart} nbs-ts send {other} sound")).code(0);
        scratch.ts(&["wait-pattern", &other, "sound\r\nsound\r\n"]).code(0);
        let ran = scratch.ts(&["run", &jail.handle, &format!("{apart} nbs-ts send {other} x")]);
        assert_eq!(ran.status.code(), Some(1), "{ran:?}");
        assert_eq!(scratch.ts(&["read", &other]).out(), "sound\r\nsound\r\n");
    }
}

#[test]
fn a_pid_that_a_confined_process_has_left_to_another_admits_nobody() {
    let there = Elsewhere::new();
    let scratch = &there.scratch;
    there.create("cat");
    let helper = helper_of(scratch);
    let other = scratch.create("cat");
    let Some(jail) = Jail::new(scratch) else { return };
    let (far, far_pid) = far_side(&there);
    let relay = scratch.file(&other, "daemon_pid").trim().to_owned();
    for (socket, words, server) in [
        (scratch.folder(&other).join("relay.sock"), "'state\\n'", relay),
        (scratch.state().join("helper.sock"), "''", helper.pid().to_string()),
        (scratch.state().join("bridges/box.sock"), "''", there.bridge()),
        (far, "pipes", far_pid),
    ] {
        give_pid_away(&jail, &socket, words, &server);
    }
}

/// The listening processes of nbs, by name.
const LISTENERS: [&str; 5] = ["nbs-bridge", "nbs-far", "nbs-page", "nbs-relay", "nbs-ts-helper"];

/// Connects, sends nothing, and prints the answer.
const KNOCK: &str = r#"
print(repr(answer(reach(sys.argv[1]))))
"#;

/// The same by TCP, with a request.
const KNOCK_BY_TCP: &str = r#"
host, port = sys.argv[1:]
s = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET)
s.settimeout(PATIENCE)
s.connect((host, int(port)))
s.sendall(b'GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
said = b''
while not said.endswith(b'still open'):
    more = answer(s)
    if not more: break
    said += more
print(said.decode())
"#;

/// This test finds a socket that is added to nbs, and tries it. Then its process belongs into [`LISTENERS`],
/// and its peers before `jail::Admission`.
#[test]
fn every_socket_that_nbs_listens_on_turns_a_confined_process_away() {
    let there = Elsewhere::new();
    let scratch = &there.scratch;
    there.create("cat");
    let _helper = helper_of(scratch);
    scratch.create("cat");
    let _page = Page::start_with(scratch, &["--listen=127.0.0.1:0"]);
    let Some(jail) = Jail::new(scratch) else { return };

    let (mut names, mut listening, mut ports) = (Vec::new(), Vec::new(), Vec::new());
    for pid in processes_below(&scratch.path) {
        let inodes = sockets(&pid);
        // __SO_ACCEPTCON; a name that begins with `@` would lie in no directory.
        let unix = lines_of("unix", 6, &inodes).into_iter().filter(|line| line[3] == "00010000");
        let unix: Vec<String> = unix.map(|line| line.get(7).cloned().unwrap_or_default()).collect();
        let mut tcp = lines_of("tcp", 9, &inodes);
        tcp.extend(lines_of("tcp6", 9, &inodes));
        let tcp: Vec<String> =
            tcp.into_iter().filter(|line| line[3] == "0A").map(|line| line[1].clone()).collect();
        if !unix.is_empty() || !tcp.is_empty() {
            names.push(name_of(&pid));
        }
        listening.extend(unix.iter().map(|path| path.rsplit('/').next().unwrap().to_owned()));
        ports.extend(
            tcp.iter().map(|address| u16::from_str_radix(address.rsplit(':').next().unwrap(), 16).unwrap()),
        );
    }
    names.sort();
    names.dedup();
    assert_eq!(names, LISTENERS, "what listens? Have it ask jail::Admission, and add it here");

    // The one relay of the jail's own serves it.
    let own = scratch.folder(&jail.handle).join("relay.sock");
    let files = socket_files(&scratch.path);
    let mut found: Vec<String> =
        files.iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    found.sort();
    listening.sort();
    assert_eq!(found, listening, "every Unix socket lies in a state directory");
    for path in files.iter().filter(|path| **path != own) {
        let said = jail.python(KNOCK, &[&path.display().to_string()]);
        assert_eq!(said, "b''\n", "{}", path.display());
    }
    assert!(!ports.is_empty());
    for port in ports {
        let said = jail.python(KNOCK_BY_TCP, &["127.0.0.1", &port.to_string()]);
        assert!(said.starts_with("HTTP/1.1 403 ") && said.contains("a confined process"), "{said}");
        assert!(!said.contains("<html"), "{said}");
    }
}

fn helper_of(scratch: &Scratch) -> Running {
    let helper = start(&mut scratch.applet("nbs-ts-helper"));
    eventually("the helper", || UnixStream::connect(scratch.state().join("helper.sock")).is_ok());
    helper
}
