//! Support for these tests besides the crate's own: a helper, and a client of it that uses none of our code.

use super::*;
use crate::support::{PATIENCE, run};
use std::{
    path::PathBuf,
    process::Child,
    sync::atomic::{AtomicU32, Ordering},
};

#[derive(Debug)]
pub(super) struct Ran {
    pub(super) code: i32,
    pub(super) out: String,
    pub(super) err: String,
    command: String,
}

impl Ran {
    #[track_caller]
    pub(super) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}: {self:#?}", self.command);
        self.out
    }
}

/// Runs it under a limit of time.
#[track_caller]
pub(super) fn within(command: &mut Command) -> Ran {
    let ran = run(command.stdin(Stdio::null()));
    let code = ran.status.code().unwrap_or(-1);
    Ran { code, out: ran.out(), err: ran.err(), command: format!("{command:?}") }
}

/// `R`, `S`, `T`, `Z`, …
pub(super) fn state_of(pid: u32) -> Option<char> {
    stat(pid).map(|(state, _)| state)
}

fn stat(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn arguments(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

fn processes() -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap();
    let pids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| state_of(*pid).is_some_and(|state| state != 'Z')).collect()
}

/// A state directory of its own, and its number in this run of the tests.
pub(super) struct Scratch(PathBuf, u32);

impl Scratch {
    pub(super) fn new() -> Scratch {
        Scratch::in_folder("s")
    }

    pub(super) fn with_helper() -> (Scratch, Helper) {
        let scratch = Scratch::new();
        let helper = Helper::start(&scratch);
        (scratch, helper)
    }

    pub(super) fn in_folder(name: &str) -> Scratch {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("nbs-helper-{}-{number}", std::process::id())).join(name);
        use std::os::unix::fs::DirBuilderExt;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder.join("home")).unwrap();
        Scratch(fs::canonicalize(folder).unwrap(), number)
    }

    /// A command that only one test of this run executes.
    pub(super) fn unmarked(&self) -> [String; 2] {
        ["sleep".into(), format!("614.{}{:04}", std::process::id(), self.1)]
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(super) fn home(&self) -> PathBuf {
        self.path("home")
    }

    pub(super) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        // Not the environment, nor by HOME the profile, of the user that runs the tests.
        command.env_clear().env("PATH", std::env::var("PATH").unwrap()).env("LANG", "C.UTF-8");
        command.env("HOME", &self.0).env("NBS_TS_HOME", self.home());
        command
    }

    pub(super) fn ts(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(links().join("nbs-ts"));
        command.args(arguments);
        command
    }

    #[track_caller]
    pub(super) fn create(&self, arguments: &[&str]) -> String {
        let ran = within(self.ts(&["create"]).args(arguments));
        assert_eq!(ran.err, "", "{ran:#?}");
        ran.ok().trim().to_owned()
    }

    #[track_caller]
    pub(super) fn ended(&self, handle: &str) {
        // The cheap look first: it is looked for very often.
        eventually("the session has ended", || {
            !self.file(handle, "exit.json").is_empty()
                && within(&mut self.ts(&["status", handle])).out.starts_with("dead")
        });
    }

    pub(super) fn file(&self, handle: &str, name: &str) -> String {
        let content = fs::read(self.home().join("sessions").join(handle).join(name)).unwrap_or_default();
        String::from_utf8_lossy(&content).into_owned()
    }

    pub(super) fn output(&self, handle: &str) -> String {
        self.file(handle, "output.log")
    }

    pub(super) fn python_command(&self, script: &str) -> Command {
        let mut command = self.command("python3");
        command.arg("-c").arg(format!("{CLIENT}\n{script}")).current_dir(self.home());
        command
    }

    /// Runs a client that has nothing of ours in it.
    #[track_caller]
    pub(super) fn python(&self, script: &str) -> String {
        within(&mut self.python_command(script)).ok()
    }

    pub(super) fn python_quietly(&self, script: &str) -> bool {
        within(&mut self.python_command(script)).code == 0
    }

    /// The keeper of a session, if it has one.
    pub(super) fn keeper(&self, handle: &str) -> Option<u32> {
        processes().into_iter().find(|pid| {
            let arguments = arguments(*pid);
            arguments.first().is_some_and(|role| role == "nbs-keeper")
                && arguments.get(1).is_some_and(|of| of == handle)
        })
    }

    /// The number of `sleep`s below the relay or the keeper of a session.
    pub(super) fn sleepers(&self, handle: &str) -> usize {
        let relay: u32 = self.file(handle, "daemon_pid").parse().unwrap_or(0);
        let roots = [Some(relay), self.keeper(handle)];
        let below = |pid: &u32| {
            let mut above = Some(*pid);
            while let Some(pid) = above.filter(|pid| *pid > 1) {
                if roots.contains(&Some(pid)) {
                    return true;
                }
                above = stat(pid).map(|(_, parent)| parent);
            }
            false
        };
        processes().iter().filter(|pid| arguments(**pid)[0] == "sleep" && below(pid)).count()
    }

    /// The processes of our sessions: keepers, relays, and those that have our state directory in their
    /// environment. Not helpers.
    pub(super) fn processes(&self) -> Vec<String> {
        let mark = format!("NBS_TS_HOME={}", self.home().display()).into_bytes();
        let ours = |pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry == mark)
        };
        let shown =
            processes().into_iter().filter(ours).map(|pid| format!("{pid} {}", arguments(pid).join(" ")));
        let mut shown: Vec<String> = shown.filter(|shown| !shown.contains("nbs-ts-helper")).collect();
        // Processes under `env -i`.
        let unmarked = processes().into_iter().filter(|pid| arguments(*pid).starts_with(&self.unmarked()));
        shown.extend(unmarked.map(|pid| format!("{pid} sleep 614")));
        shown
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = self.ts(&["kill", "--all"]).stderr(Stdio::null()).status();
        if std::thread::panicking() {
            return;
        }
        eventually("nobody is left", || self.processes().is_empty());
        fs::remove_dir_all(self.0.parent().unwrap()).unwrap();
    }
}

pub(super) struct Helper {
    child: Child,
    log: PathBuf,
}

impl Helper {
    pub(super) fn start(scratch: &Scratch) -> Helper {
        Helper::start_with(scratch, |_| ())
    }

    pub(super) fn start_with(scratch: &Scratch, change: impl FnOnce(&mut Command)) -> Helper {
        let mut command = scratch.command(links().join("nbs-ts-helper"));
        change(&mut command);
        Helper::start_as(scratch, &mut command)
    }

    pub(super) fn start_as(scratch: &Scratch, command: &mut Command) -> Helper {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let log = scratch.path(&format!("helper-{}.log", LAST.fetch_add(1, Ordering::Relaxed)));
        let file = fs::File::create(&log).unwrap();
        let child =
            command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        let helper = Helper { child, log };
        helper.log_has(&format!("nbs-ts-helper started (pid {})", helper.pid()));
        helper
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    #[track_caller]
    pub(super) fn log_has(&self, what: &str) {
        let start = Instant::now();
        while !self.log().contains(what) {
            assert!(start.elapsed() < PATIENCE, "{what:?} is not in the log:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn numbers(&self) -> Vec<u32> {
        let all = fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap();
        all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
    }

    pub(super) fn descriptors(&self) -> usize {
        self.numbers().len()
    }

    pub(super) fn highest_descriptor(&self) -> u32 {
        self.numbers().into_iter().max().unwrap()
    }

    /// Its children, dead or alive, with their states.
    pub(super) fn children(&self) -> Vec<(u32, char)> {
        let all = fs::read_dir("/proc").unwrap();
        let pids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        pids.filter_map(|pid| {
            stat(pid).filter(|(_, parent)| *parent == self.pid()).map(|(state, _)| (pid, state))
        })
        .collect()
    }

    /// Hundredths of a second.
    pub(super) fn cpu_ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }

    pub(super) fn wait(&mut self) {
        self.child.wait().unwrap();
    }

    #[track_caller]
    pub(super) fn stop(mut self) {
        kill(self.pid(), 15);
        assert!(self.child.wait().unwrap().success());
        self.log_has("nbs-ts-helper stopped");
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read(&self.log).unwrap_or_default();
            let _ = std::io::Write::write_all(&mut std::io::stderr(), &log);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The base protocol, in another language and from its description alone.
const CLIENT: &str = r#"
import os, select, socket, sys, time
def connect():
    s = socket.socket(socket.AF_UNIX)
    s.connect('helper.sock')
    return s
def read_all(s):
    out = b''
    while True:
        part = s.recv(4096)
        if not part: return out
        out += part
def base(command):
    s = connect()
    s.sendall(command)
    s.shutdown(socket.SHUT_WR)
    first, fds, flags, _ = socket.recv_fds(s, 1, 4)
    assert first == b'F', first
    assert len(fds) == 1, fds
    digits = read_all(s)
    pid = int(digits)
    return fds[0], pid, digits[len(str(pid)):]
def drain_some(master):
    while True:
        try: return os.read(master, 4096)
        except BlockingIOError: time.sleep(0.005)
        except OSError: return b''
def drain(master):
    out = b''
    while True:
        part = drain_some(master)
        if not part: return out
        out += part
"#;
