//! The base of every test: a state directory of its own, and calls that cannot hang.

use std::{
    fs,
    io::{Read, Write},
    os::unix::{ffi::OsStrExt, fs::symlink, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Once, OnceLock,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How long anything may take before it counts as hanging. Long, since the
/// machines that run tests are busy; a passing test never waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The file under test.
pub(crate) fn binary() -> PathBuf {
    std::env::var_os("NBS_UNDER_TEST").map_or_else(|| env!("CARGO_BIN_EXE_nbs").into(), PathBuf::from)
}

/// A directory with the links, made once.
pub(crate) fn links() -> &'static Path {
    static LINKS: OnceLock<PathBuf> = OnceLock::new();
    LINKS.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("links-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        for link in ["nbs-ts", "nbs-spawn-worker", "nbs-launch-agent", "nbs-ts-helper", "nbs-mcp", "nbs-page"]
        {
            symlink(fs::canonicalize(binary()).unwrap(), folder.join(link)).unwrap();
        }
        folder
    })
}

/// Puts a copy of a file there, which may be its standard input's content. Another process writes it: the
/// children of concurrent tests also have open whatever this process has open for writing, until they
/// execute, and a file that is open for writing cannot be executed (ETXTBSY, execve(2)).
fn install(source: &Path, program: &Path, content: &[u8]) {
    let mut install = Command::new("install");
    install.args(["-D", "--mode=755"]).args([source, program]).stdin(Stdio::piped());
    let mut install = install.spawn().unwrap();
    install.stdin.take().unwrap().write_all(content).unwrap();
    assert!(install.wait().unwrap().success());
}

/// Makes an executable file, and the folders that it is in.
pub(crate) fn executable(path: &Path, content: impl AsRef<[u8]>) {
    install(Path::new("/dev/stdin"), path, content.as_ref());
}

/// A copy of the file under test, which everybody may execute.
pub(crate) fn copy_of_binary(path: &Path) {
    install(&binary(), path, b"");
}

/// The shared libraries that a program needs; a static one needs none.
pub(crate) fn libraries_of(program: &Path) -> Vec<PathBuf> {
    let told = run(Command::new("ldd").arg(program)).out();
    told.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}

/// Both of Debian's: one executes a file for each applet, and one has all of them inside. They
/// cannot be installed both.
pub(crate) fn busyboxes() -> [&'static str; 2] {
    static FOLDER: OnceLock<String> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/busyboxes");
        let ran = run(Command::new("bash").arg(script).arg(env!("CARGO_TARGET_TMPDIR"))).code(0);
        ran.out().trim_end().to_owned()
    });
    ["busybox", "busybox-static"].map(|package| &*format!("{folder}/{package}/bin/busybox").leak())
}

/// The environment of one test: a state directory, and a HOME beside it. On drop all remaining processes of
/// its sessions are ended; one process too many fails the test.
pub(crate) struct Scratch {
    pub(crate) path: PathBuf,
}

/// All tests are one process, and 1,024 descriptors, which a login has, are few for some of them
/// at once. Not as many as may be had: there are programs that close them all, one by one.
fn allow_many_descriptors() {
    const MANY: u64 = 16_384;
    let limit = getrlimit(Resource::Nofile);
    let limit = Rlimit { current: Some(limit.maximum.unwrap_or(MANY).min(MANY)), ..limit };
    setrlimit(Resource::Nofile, limit).unwrap();
}

impl Scratch {
    pub(crate) fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        static DESCRIPTORS: Once = Once::new();
        DESCRIPTORS.call_once(allow_many_descriptors);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("nbs-it-{}-{count}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("home")).unwrap();
        fs::create_dir(path.join("tmp")).unwrap();
        fs::write(path.join("home/.bashrc"), "PS1='$ '\n").unwrap();
        Scratch { path: fs::canonicalize(path).unwrap() }
    }

    /// With a session of this command, and its handle.
    pub(crate) fn with_session(command: &str) -> (Scratch, String) {
        let scratch = Scratch::new();
        let handle = scratch.create(command);
        (scratch, handle)
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.path.join("state")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.path.join("home")
    }

    /// The directory of a session.
    pub(crate) fn folder(&self, handle: &str) -> PathBuf {
        self.state().join("sessions").join(handle)
    }

    pub(crate) fn file(&self, handle: &str, name: &str) -> String {
        let content = fs::read(self.folder(handle).join(name)).unwrap();
        String::from_utf8_lossy(&content).into_owned()
    }

    /// The input of a session, to be written to, and asked how much of it is unread.
    pub(crate) fn fifo(&self, handle: &str) -> fs::File {
        let path = self.folder(handle).join("input.fifo");
        fs::OpenOptions::new().read(true).write(true).open(path).unwrap()
    }

    /// A program in the environment that every call of this test has.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", format!("{}:{path}", links().display()))
            .env("HOME", self.home())
            .env("NBS_TS_HOME", self.state())
            .env("TMPDIR", self.path.join("tmp"))
            .env("LANG", "C.UTF-8")
            .current_dir(&self.path);
        command
    }

    /// `nbs-ts` with these arguments.
    pub(crate) fn ts(&self, arguments: &[&str]) -> Ran {
        let mut command = self.command(links().join("nbs-ts"));
        run(command.args(arguments))
    }

    /// Another applet by its link's name, ready to be run.
    pub(crate) fn applet(&self, link: &str) -> Command {
        self.command(links().join(link))
    }

    /// The same, with something on standard input.
    pub(crate) fn ts_with_input(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let file = self.path.join("input");
        fs::write(&file, input).unwrap();
        let mut command = self.command(links().join("nbs-ts"));
        run(command.args(arguments).stdin(fs::File::open(file).unwrap()))
    }

    /// A call that is not waited for yet.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        let mut command = self.command(links().join("nbs-ts"));
        start(command.args(arguments))
    }

    /// A bash script that calls `nbs-ts`.
    pub(crate) fn bash(&self, script: &str) -> Ran {
        run(self.command("bash").args(["-c", script]))
    }

    /// Creates a session, and gives its handle.
    pub(crate) fn create(&self, command: &str) -> String {
        self.create_with(&[], command)
    }

    pub(crate) fn create_with(&self, options: &[&str], command: &str) -> String {
        let mut arguments = vec!["create", "--no-helper"];
        arguments.extend(options);
        arguments.push(command);
        let ran = self.ts(&arguments).code(0).silent();
        let handle = ran.out().strip_suffix('\n').unwrap().to_owned();
        assert!(
            handle.len() == 8 && handle.bytes().all(|byte| b"0123456789abcdef".contains(&byte)),
            "{ran:?}"
        );
        handle
    }

    /// The commands that take a session, as an operand or in an option, and are not in a list of cases: they
    /// are tried with the session alone. `list` is the list's name; its commands must take a session.
    pub(crate) fn without_case<'a>(
        &self,
        cases: impl IntoIterator<Item = &'a str>,
        list: &str,
    ) -> Vec<String> {
        let help: serde_json::Value =
            serde_json::from_str(&self.ts(&["help", "--json"]).code(0).out()).unwrap();
        let takes_one = |command: &&serde_json::Value| {
            let has = |list: &str, key: &str| {
                command[list].as_array().unwrap().iter().any(|one| one[key] == "SESSION")
            };
            has("operands", "name") || has("options", "value")
        };
        let cases: Vec<&str> = cases.into_iter().collect();
        let names = help["commands"].as_array().unwrap().iter().filter(takes_one);
        let names: Vec<&str> = names.map(|command| command["name"].as_str().unwrap()).collect();
        assert!(names.contains(&"send") && names.len() > 10, "{names:?}");
        let unknown: Vec<&&str> = cases.iter().filter(|name| !names.contains(name)).collect();
        assert!(unknown.is_empty(), "{unknown:?} takes no session: take its case out of {list}");
        names.into_iter().filter(|name| !cases.contains(name)).map(str::to_owned).collect()
    }

    /// Waits until the session has ended.
    pub(crate) fn wait_for_end(&self, handle: &str) {
        eventually(&format!("the end of {handle}"), || {
            self.ts(&["status", handle]).out().starts_with("dead")
        });
    }

    /// Processes with this world in their environment, but zombies.
    pub(crate) fn processes(&self) -> Vec<String> {
        let mark = [b"NBS_TS_HOME=", self.state().as_os_str().as_bytes()].concat();
        let belongs = |pid: &str| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry == mark)
        };
        pids()
            .into_iter()
            .filter(|pid| belongs(pid) && state_of(pid) != Some('Z'))
            .map(|pid| described(&pid))
            .collect()
    }

    /// The PID of the one of these processes that has this in its name.
    pub(crate) fn pid_of(&self, name: &str) -> String {
        let all = self.processes();
        let found = all.iter().find(|process| process.contains(name)).unwrap_or_else(|| panic!("{all:?}"));
        found.split(':').next().unwrap().to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = self.start(&["kill", "--keep", "--all"]).child.take().map(|mut child| child.wait());
            let _ = writeln!(std::io::stderr(), "kept: {}", self.path.display());
            return;
        }
        self.ts(&["kill", "--all"]).code(0);
        eventually("no process being left", || self.processes().is_empty());
        fs::remove_dir_all(&self.path).unwrap();
    }
}

fn pids() -> Vec<String> {
    let names = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).collect()
}

/// The state letter of a process, `Z` for a zombie; `None` if there is none.
pub(crate) fn state_of(pid: &str) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Does it run, or could it again?
pub(crate) fn is_running(pid: &str) -> bool {
    state_of(pid).is_some_and(|state| state != 'Z' && state != 'X')
}

/// It is traced, or was, and has ended by that: then it need not be collected.
pub(crate) fn wait_for_tracer(pid: &str) {
    eventually("the tracer", || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        !status.contains("TracerPid:\t0\n") || !is_running(pid)
    });
}

/// How many sockets a process has open.
pub(crate) fn sockets_of(pid: &str) -> usize {
    let names = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let targets = names.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
}

/// The complete lines of a file that is being written.
pub(crate) fn whole_lines(path: &Path) -> Vec<String> {
    let content = fs::read(path).unwrap();
    let content = String::from_utf8_lossy(&content);
    let whole = content.rfind('\n').map_or("", |end| &content[..=end]);
    whole.lines().map(str::to_owned).collect()
}

fn described(pid: &str) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    format!("{pid}: {}", String::from_utf8_lossy(&words).replace('\0', " "))
}

/// Waits for a fact. The one place where tests sleep: facts of other processes
/// cannot all be waited for otherwise.
#[track_caller]
pub(crate) fn eventually(what: &str, fact: impl FnMut() -> bool) {
    eventually_within(PATIENCE, what, fact);
}

/// The same for a condition that takes much work even on an idle machine.
#[track_caller]
pub(crate) fn eventually_within(patience: Duration, what: &str, mut fact: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !fact() {
        assert!(begun.elapsed() < patience, "in vain: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// A call that must time out, given its timeout. By then some program must have reached a state, and no
/// timeout is long enough on every machine: if it has not, another call has more time. The result of the last
/// one must be checked.
pub(crate) fn timing_out(has_come: impl Fn(&Ran) -> bool, mut call: impl FnMut(&str) -> Ran) -> Ran {
    for timeout in ["--timeout=0.3", "--timeout=3"] {
        let ran = call(timeout);
        if has_come(&ran) {
            return ran;
        }
    }
    call("--timeout=20")
}

/// The result of a call.
#[derive(Debug)]
pub(crate) struct Ran {
    words: String,
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) took: Duration,
}

impl Ran {
    pub(crate) fn shown(&self) -> String {
        format!(
            "{}\n  {} in {:?}\n  stdout: {:?}\n  stderr: {:?}",
            self.words,
            self.status,
            self.took,
            String::from_utf8_lossy(&self.stdout),
            String::from_utf8_lossy(&self.stderr)
        )
    }

    pub(crate) fn code(self, code: i32) -> Ran {
        assert!(self.status.code() == Some(code), "expected exit code {code}:\n{}", self.shown());
        self
    }

    pub(crate) fn signal(self, signal: i32) -> Ran {
        assert!(self.status.signal() == Some(signal), "expected signal {signal}:\n{}", self.shown());
        self
    }

    pub(crate) fn stdout(self, expected: impl AsRef<[u8]>) -> Ran {
        let expected = expected.as_ref();
        let shown = String::from_utf8_lossy(expected).into_owned();
        assert!(self.stdout == expected, "expected stdout {shown:?}:\n{}", self.shown());
        self
    }

    pub(crate) fn stdout_has(self, part: &str) -> Ran {
        assert!(self.out().contains(part), "expected {part:?} in stdout:\n{}", self.shown());
        self
    }

    /// One line on standard error, with this in it.
    pub(crate) fn complains(self, part: &str) -> Ran {
        let line = String::from_utf8_lossy(&self.stderr).into_owned();
        let one_line = line.ends_with('\n') && line.matches('\n').count() == 1;
        assert!(one_line && line.contains(part), "expected one line with {part:?}:\n{}", self.shown());
        assert!(!line.trim_end().chars().any(char::is_control), "a raw control character:\n{}", self.shown());
        self
    }

    pub(crate) fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    pub(crate) fn silent(self) -> Ran {
        assert!(self.stderr.is_empty(), "expected silence:\n{}", self.shown());
        self
    }

    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The value of a field of the one JSON object on stdout, as it is written.
    pub(crate) fn field(&self, name: &str) -> String {
        field(&self.out(), name)
    }
}

/// The value of a field of a JSON object, as it is written. The objects under
/// test are flat, so looking for the comma or brace after it will do, with care
/// for strings and lists.
pub(crate) fn field(object: &str, name: &str) -> String {
    let key = format!("\"{name}\":");
    let at = object.find(&key).unwrap_or_else(|| panic!("no {name} in {object}")) + key.len();
    let (mut in_string, mut depth, mut escaped) = (false, 0, false);
    for (offset, character) in object[at..].char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            '[' if !in_string => depth += 1,
            ']' if !in_string => depth -= 1,
            ',' | '}' if !in_string && depth == 0 => return object[at..at + offset].to_owned(),
            _ => {}
        }
    }
    panic!("{name} does not end in {object}")
}

/// A call under way.
pub(crate) struct Running {
    words: String,
    begun: Instant,
    child: Option<Child>,
    outputs: mpsc::Receiver<(bool, Vec<u8>)>,
}

/// Runs a program to its end, which must come.
pub(crate) fn run(command: &mut Command) -> Ran {
    start(command).finish()
}

pub(crate) fn start(command: &mut Command) -> Running {
    let words = format!("{command:?}");
    let words = words.rsplit_once("NBS_TS_HOME=").map_or(words.clone(), |(_, end)| end.to_owned());
    let begun = Instant::now();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (sender, outputs) = mpsc::channel();
    let (mut stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let errors = sender.clone();
    thread::spawn(move || drop(sender.send((false, read_all(&mut stdout)))));
    thread::spawn(move || drop(errors.send((true, read_all(&mut stderr)))));
    Running { words, begun, child: Some(child), outputs }
}

fn read_all(from: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).unwrap();
    bytes
}

impl Running {
    /// The command line, for people.
    pub(crate) fn words(&self) -> &str {
        &self.words
    }

    /// Has it ended by now?
    pub(crate) fn is_over(&mut self) -> bool {
        self.child.as_mut().unwrap().try_wait().unwrap().is_some()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Waits for its end, and for the end of its output: a process that keeps a pipe of the caller open is
    /// found here.
    pub(crate) fn finish(mut self) -> Ran {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        // The test's own work since the start does not count as hanging.
        let waiting = Instant::now();
        for _ in 0..2 {
            let left = PATIENCE.saturating_sub(waiting.elapsed());
            match self.outputs.recv_timeout(left) {
                Ok((true, bytes)) => stderr = bytes,
                Ok((false, bytes)) => stdout = bytes,
                Err(_) => panic!("hangs, or its output is held open: {}", self.words),
            }
        }
        let mut child = self.child.take().unwrap();
        let status = child.wait().unwrap();
        Ran { words: self.words.clone(), status, stdout, stderr, took: self.begun.elapsed() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Sends `-KILL`, say, to a process.
#[track_caller]
pub(crate) fn signal(name: &str, pid: &str) {
    run(Command::new("kill").args([name, pid])).code(0);
}

/// A small file system for one test; such tests need root, as CI has it.
pub(crate) struct Mount(PathBuf);

impl Mount {
    pub(crate) fn tmpfs(at: &Path, size: &str) -> Mount {
        let options = format!("mode=700,{size}");
        run(Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at)).code(0);
        Mount(at.to_owned())
    }

    /// A file system without holes in files.
    pub(crate) fn ramfs(at: &Path) -> Mount {
        run(Command::new("mount").args(["-t", "ramfs", "-o", "mode=700", "ramfs"]).arg(at)).code(0);
        Mount(at.to_owned())
    }

    /// While a process that has ended a session still has a file of it open, it cannot be read-only.
    pub(crate) fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        let remounted = || run(Command::new("mount").args(["-o", &options]).arg(&self.0)).status.success();
        eventually(&options, remounted);
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        run(Command::new("umount").arg("-l").arg(&self.0));
    }
}

/// A state directory on a small file system of its own, which may become full.
pub(crate) struct SmallDisk {
    // Unmounted first.
    mount: Mount,
    scratch: Scratch,
    /// There is room for other files beside the state directory, `nbs`.
    pub(crate) path: PathBuf,
}

impl SmallDisk {
    pub(crate) fn new(size: &str) -> SmallDisk {
        let scratch = Scratch::new();
        let path = scratch.path.join("small");
        fs::create_dir(&path).unwrap();
        SmallDisk { mount: Mount::tmpfs(&path, &format!("size={size}")), scratch, path }
    }

    pub(crate) fn resize(&self, size: &str) {
        self.mount.remount(&format!("size={size}"));
    }

    /// `nbs-ts` with these arguments.
    pub(crate) fn ts(&self, arguments: &[&str]) -> Ran {
        run(self.scratch.command("nbs-ts").env("NBS_TS_HOME", self.path.join("nbs")).args(arguments))
    }
}

/// The most memory that a process has used, in KiB, without its executable: the tested file may be a large
/// one, and all processes of ours have the same. `None` if the process does not exist.
pub(crate) fn most_memory(pid: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let of = |what: &str| -> Option<u64> {
        let size = status.lines().find_map(|line| line.strip_prefix(what))?;
        size.trim().trim_end_matches(" kB").parse().ok()
    };
    Some(of("VmHWM:")?.saturating_sub(of("RssFile:")?))
}
