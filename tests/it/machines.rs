//! Sessions on other machines: every verb, over what stands for one.

mod connection;
mod copies;
mod exec;
mod forwards;
mod several;
mod workers;

use std::{
    fs,
    io::{BufRead, BufReader},
    net::TcpListener,
    os::unix::{ffi::OsStrExt, fs::symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::support::{
    Ran, Scratch, binary, copy_of_binary, eventually, executable, libraries_of, links, run, sockets_of,
    start, state_of,
};

/// Another machine: a home folder of its own, and a command that leads there. On drop all that is
/// left there is ended, and one process too many fails the test.
pub(crate) struct Elsewhere {
    pub(crate) scratch: Scratch,
    name: &'static str,
    pub(crate) home: PathBuf,
}

impl Elsewhere {
    /// By a plain sh in another home.
    pub(crate) fn new() -> Elsewhere {
        let there = Elsewhere::unadded();
        there.add(&["env", &format!("HOME={}", there.home.display()), "sh"]);
        there
    }

    pub(crate) fn unadded() -> Elsewhere {
        let scratch = Scratch::new();
        let home = scratch.path.join("there");
        fs::create_dir(&home).unwrap();
        fs::write(home.join(".bashrc"), "PS1='$ '\n").unwrap();
        Elsewhere { scratch, name: "box", home }
    }

    pub(crate) fn add(&self, command: &[&str]) {
        let mut words = vec!["machine", "add", self.name];
        words.extend(command);
        self.ts(&words).code(0).silent();
    }

    pub(crate) fn ts(&self, words: &[&str]) -> Ran {
        self.scratch.ts(words)
    }

    pub(crate) fn create(&self, command: &str) -> String {
        let on = format!("--on={}", self.name);
        let ran = self.ts(&["create", &on, "--no-helper", command]).code(0).silent();
        let handle = ran.out().trim_end().to_owned();
        let (machine, there) = handle.split_once(':').unwrap();
        assert!(machine == self.name && there.len() == 8, "{ran:?}");
        handle
    }

    /// By a line that changes what passes over it, where it is told to.
    pub(crate) fn add_line(&self) {
        let script = self.scratch.path.join("line");
        fs::write(&script, LINE).unwrap();
        // The bytes in the pipes are lost with it, and no process holds the other ends.
        let pipes = "exec 3<&0; exec env HOME=$0 sh \
            < <(exec -a cat perl $1 $1-there <&3 3<&-) > >(exec -a cat perl $1 $1-back 3<&-) 3<&-";
        self.add(&["bash", "-c", pipes, self.home.to_str().unwrap(), script.to_str().unwrap()]);
    }

    /// Has the line change what passes over it in one direction (`there` or `back`): `insert` bytes,
    /// after which all comes in small pieces, or `turn` one; after so many bytes, once or `always`.
    pub(crate) fn spoil_line(&self, direction: &str, how: &str, after: u64) {
        let file = self.scratch.path.join(format!("line-{direction}"));
        let next = file.with_extension("next");
        fs::write(&next, format!("{how} {after}")).unwrap();
        fs::rename(next, file).unwrap();
    }

    pub(crate) fn mend_line(&self) {
        for direction in ["there", "back"] {
            let _ = fs::remove_file(self.scratch.path.join(format!("line-{direction}")));
        }
    }

    /// The files of a session in its folder there.
    fn file(&self, handle: &str, name: &str) -> String {
        let (_, handle) = handle.split_once(':').unwrap();
        let path = self.home.join(".nbs-ts/sessions").join(handle).join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Processes that are there.
    pub(crate) fn processes(&self) -> Vec<String> {
        let mark = [b"HOME=", self.home.as_os_str().as_bytes()].concat();
        processes(|environment| environment.split(|byte| *byte == 0).any(|entry| entry == mark))
    }

    /// The processes between the bridge and what is there.
    pub(crate) fn transport(&self) -> Vec<String> {
        let mark = [b"HOME=", self.scratch.home().as_os_str().as_bytes()].concat();
        let ours = processes(|environment| environment.split(|byte| *byte == 0).any(|entry| entry == mark));
        ours.into_iter().filter(|pid| name_of(pid) == "cat").collect()
    }

    /// The numbers of the bridges.
    pub(crate) fn bridges(&self) -> Vec<String> {
        let mark = [b"NBS_TS_HOME=", self.scratch.state().as_os_str().as_bytes()].concat();
        let ours = processes(|environment| environment.split(|byte| *byte == 0).any(|entry| entry == mark));
        ours.into_iter().filter(|pid| name_of(pid) == "nbs-bridge").collect()
    }

    pub(crate) fn bridge(&self) -> String {
        self.bridges().pop().unwrap_or_else(|| panic!("there is no bridge"))
    }
}

/// One direction of such a line, in perl.
const LINE: &str = include_str!("../cluster/bad-line");

impl Drop for Elsewhere {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for words in
                [&["kill", "--all", &format!("--on={}", self.name)][..], &["machine", "remove", self.name]]
            {
                let _ = self.scratch.start(words).finish();
            }
            return;
        }
        self.ts(&["kill", "--all", &format!("--on={}", self.name)]).code(0);
        self.ts(&["machine", "remove", self.name]).code(0);
        eventually("no process being left there", || self.processes().is_empty());
    }
}

fn processes(is_one: impl Fn(&[u8]) -> bool) -> Vec<String> {
    let names = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let pids = names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    pids.filter(|pid| is_one(&fs::read(format!("/proc/{pid}/environ")).unwrap_or_default())).collect()
}

pub(crate) fn name_of(pid: &str) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let name =
        String::from_utf8_lossy(words.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
    // A program that a script has executed is called by its path.
    name.rsplit('/').next().unwrap_or_default().to_owned()
}

/// A call that waits, on the machine that it is for.
fn is_wait(pid: &str) -> bool {
    let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    name_of(pid) == "nbs-call" && words.contains("\0wait\0")
}

/// Every verb, once, as a script would use it.
fn use_every_verb(there: &Elsewhere, program: &str) {
    let shell = there.create(program);
    let (_, bare) = shell.split_once(':').unwrap();
    there.ts(&["run", &shell, "echo one; cd /tmp; (exit 7)"]).code(7).stdout("one\n").silent();
    there.ts(&["pwd", &shell]).code(0).stdout("/tmp\n").silent();
    there.ts(&["ask", &shell, "echo two"]).code(0).stdout("two\n").silent();
    there.ts(&["send", &shell, "echo three; false"]).code(0).stdout("").silent();
    there.ts(&["wait", &shell, "--input"]).code(0).stdout(format!("{shell}\tinput\tprompt\n")).silent();
    there.ts(&["read", &shell, "--strip"]).code(0).stdout_has("three\n");
    there.ts(&["read-new", &shell, "--strip"]).code(0).stdout_has("three\n");
    let read = |form| run(there.scratch.applet("nbs-ts").args(["read", &shell]).env("NBS_TS_OUTPUT", form));
    read("strip").code(0).stdout_has("three\n");
    read("raw").code(0).stdout_has("three\r\n");
    there.ts(&["read-new", &shell]).code(0).stdout("");
    there.ts(&["screen", &shell]).code(0).stdout_has("three");
    there.ts(&["status", &shell]).code(0).stdout("alive\n");
    there.ts(&["resize", &shell, "100x30"]).code(0);
    there.ts(&["run", &shell, "stty size"]).code(0).stdout("30 100\n");
    there.ts(&["wait-complete", &shell]).code(0).stdout("1\n");
    there.ts(&["send", &shell, "cat"]).code(0);
    there.ts(&["wait", &shell, "--input"]).code(0).stdout(format!("{shell}\tinput\tline\n"));
    there.ts(&["key", &shell, "a", "Enter"]).code(0);
    there.ts(&["wait-pattern", &shell, "a\r\na\r\n"]).code(0);
    there.ts(&["eof", &shell]).code(0);
    there.ts(&["wait", &shell, "--input"]).code(0).stdout(format!("{shell}\tinput\tprompt\n"));
    let object = there.ts(&["status", "--json", &shell]).code(0);
    assert_eq!(object.field("handle"), format!("\"{shell}\""));
    assert_eq!(object.field("machine"), format!("\"{}\"", there.name));
    let on = format!("--on={}", there.name);
    there.ts(&["list", &on]).code(0).stdout(format!("{shell}\talive\t-\t{program}\n")).silent();
    // Here, there is none.
    there.ts(&["list"]).code(0).stdout("");
    there.ts(&["status", bare]).code(2);
    let named = there.ts(&["ensure", &on, "--no-helper", "--name=work", "sh"]).code(0).out();
    there.ts(&["find", &on, "work"]).code(0).stdout(&named);
    there.ts(&["run", &format!("{}:@work", there.name), "echo four"]).code(0).stdout("four\n");
    let once = there.create("exit 3");
    there.ts(&["wait", &once, "--exit"]).code(0).stdout(format!("{once}\texit\t3\n"));
    there.ts(&["exit-code", &once]).code(0).stdout("3\n");
    there.ts(&["attach", &once]).code(0).stdout_has("[process exited with code 3]");
    there.ts(&["events", &on]).code(0).stdout_has(&format!("\"session_id\":\"{once}\""));
    let beside = format!("--inherit-cwd={shell}");
    let beside = there.ts(&["create", "--no-helper", &beside, "sleep 1000"]).code(0).out();
    assert!(beside.starts_with(&format!("{}:", there.name)), "{beside}");
    there.ts(&["kill", beside.trim_end()]).code(0);
    let again = there.ts(&["restart", &once]).code(0).out();
    let again = again.trim_end();
    there.ts(&["wait", again, "--exit"]).code(0);
    let restarted = there.ts(&["restart", "--json", again]).code(0);
    assert_eq!(restarted.field("restarted"), format!("\"{again}\""));
    let last = restarted.field("handle");
    let last = last.trim_matches('"');
    let told = there.ts(&["status", "--json", again]).code(0).field("restarted_as");
    assert_eq!(told, format!("\"{last}\""));
    there.ts(&["kill", &shell, &once, again, last, named.trim_end()]).code(0).silent();
    there.ts(&["list", &on]).code(0).stdout("");
    there.ts(&["gc", &on]).code(0).stdout_has("gc: removed 0 sessions");
}

#[test]
fn every_verb_works_there_as_here() {
    use_every_verb(&Elsewhere::new(), "bash");
}

/// A root folder with nothing in it but busybox, for a mount namespace.
struct Root {
    path: PathBuf,
}

impl Root {
    fn new(there: &Elsewhere) -> Root {
        let path = there.scratch.path.join("root");
        let inside = |path: &Path| there.scratch.path.join("root").join(path.strip_prefix("/").unwrap());
        for folder in ["/bin", "/dev", "/proc", "/tmp", there.home.to_str().unwrap()] {
            fs::create_dir_all(inside(Path::new(folder))).unwrap();
        }
        let busybox = Path::new("/bin/busybox");
        for library in [busybox, &binary()].into_iter().flat_map(libraries_of) {
            fs::create_dir_all(inside(&library).parent().unwrap()).unwrap();
            fs::copy(&library, inside(&library)).unwrap();
        }
        executable(&inside(busybox), fs::read(busybox).unwrap());
        run(Command::new("chroot").arg(&path).args(["/bin/busybox", "--install", "-s", "/bin"])).code(0);
        Root { path }
    }

    /// The command that gives its sh.
    fn add(&self, there: &Elsewhere) {
        let script = "mount --rbind /dev $0/dev; mount -t proc proc $0/proc; \
            exec chroot $0 /bin/env -i HOME=$1 PATH=/bin /bin/sh";
        let (root, home) = (self.path.to_str().unwrap(), there.home.to_str().unwrap());
        there.add(&["unshare", "-m", "sh", "-c", script, root, home]);
    }
}

#[test]
fn every_verb_works_where_there_is_only_busybox() {
    let there = Elsewhere::unadded();
    Root::new(&there).add(&there);
    there.ts(&["machine", "check", "box"]).code(0);
    use_every_verb(&there, "sh");
}

#[test]
fn a_machine_of_another_architecture_gets_the_file_for_it_or_is_told_what_to_put_where() {
    let there = Elsewhere::unadded();
    let root = Root::new(&there);
    root.add(&there);
    let ours = there.scratch.path.join("ours/nbs");
    copy_of_binary(&ours);
    let (other, number, our_own) = match std::env::consts::ARCH {
        "x86_64" => ("aarch64", 183_u16, "x86_64"),
        our_own => ("x86_64", 62, our_own),
    };
    let theirs = ours.with_file_name(format!("nbs-{other}"));
    let call = |why: &str| {
        let check = ["ts", "machine", "check", "box"];
        let ran = run(there.scratch.command(&ours).args(check)).code(1).stdout_has(why);
        drop(ran.stdout_has(other));
        let list = ["ts", "list", "--on=box"];
        run(there.scratch.command(&ours).args(list)).code(255).complains(why);
    };
    fs::remove_file(root.path.join("bin/uname")).unwrap();
    executable(&root.path.join("bin/uname"), format!("#!/bin/sh\necho {other}\n"));
    call(&format!("it needs nbs for {other} from '{}', where there is none", theirs.display()));
    // By its header (elf(5), e_machine), which is believed here; there it has to run.
    let mut content = fs::read(&ours).unwrap();
    content[18..20].copy_from_slice(&number.to_le_bytes());
    fs::write(&theirs, &content[..content.len() / 2]).unwrap();
    call(&format!("which is an incomplete copy of a program for {other}"));
    fs::write(&theirs, "#!/bin/sh\n").unwrap();
    call("which is not a program");
    fs::remove_file(&theirs).unwrap();
    symlink(&theirs, &theirs).unwrap();
    call("which cannot be read: ");
    fs::remove_file(&theirs).unwrap();
    fs::create_dir(&theirs).unwrap();
    call("which is not a program");
    fs::remove_dir(&theirs).unwrap();
    fs::copy(&ours, &theirs).unwrap();
    call(&format!("which is a program for {our_own}"));
    fs::write(&theirs, content).unwrap();
    call("the file that was copied there does not run, or is not whole");
    executable(&root.path.join("bin/uname"), "#!/bin/sh\necho riscv64\n");
    let list = ["ts", "list", "--on=box"];
    run(there.scratch.command(&ours).args(list))
        .code(255)
        .complains("not built for its architecture, 'riscv64'");
    fs::remove_file(root.path.join("bin/uname")).unwrap();
    let shell = there.create("sh");
    there.ts(&["run", &shell, "echo it works"]).code(0).stdout("it works\n");
}

#[test]
fn files_beside_ours_do_not_matter_on_the_same_architecture() {
    let there = Elsewhere::new();
    let ours = there.scratch.path.join("ours/nbs");
    copy_of_binary(&ours);
    let other = if cfg!(target_arch = "x86_64") { "aarch64" } else { "x86_64" };
    let theirs = ours.with_file_name(format!("nbs-{other}"));
    let call = || {
        // A bridge is of the file that started it, and looks only once.
        there.ts(&["machine", "remove", "box"]).code(0);
        there.add(&["env", &format!("HOME={}", there.home.display()), "sh"]);
        run(there.scratch.command(&ours).args(["ts", "list", "--on=box"])).code(0).silent();
    };
    fs::create_dir(&theirs).unwrap();
    call();
    fs::remove_dir(&theirs).unwrap();
    symlink(&theirs, &theirs).unwrap();
    call();
}

#[test]
fn calls_go_on_when_another_way_to_their_machine_is_given() {
    let there = Elsewhere::new();
    let session = there.create("read word; exit 6");
    let waiting = there.scratch.start(&["wait", &session, "--exit"]);
    let is_call = |pid: &String| name_of(pid) == "nbs-call";
    eventually("the call's beginning", || there.processes().iter().any(is_call));
    let before = there.bridges();
    there.add(&["env", &format!("HOME={}", there.home.display()), "sh", "-s"]);
    // Two bridges would take the connection from each other again and again.
    eventually("the next bridge", || there.bridges().len() == 1 && there.bridges() != before);
    there.ts(&["send", &session, "go"]).code(0);
    waiting.finish().code(0).stdout(format!("{session}\texit\t6\n")).silent();
}

/// A server of the test's own on the loopback, which ends with it.
struct Sshd {
    process: Child,
    config: PathBuf,
}

impl Sshd {
    fn start(scratch: &Scratch) -> Sshd {
        let folder = scratch.path.join("ssh");
        fs::create_dir(&folder).unwrap();
        let path = |name: &str| folder.join(name).display().to_string();
        for key in ["host", "user"] {
            let mut keygen = Command::new("ssh-keygen");
            run(keygen.args(["-q", "-t", "ed25519", "-N", "", "-f", &path(key)])).code(0);
        }
        // The directory to which a server confines itself; systemd would create it.
        fs::create_dir_all("/run/sshd").unwrap();
        // A port that is free now.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut sshd = Command::new("/usr/sbin/sshd");
        let mut sshd = sshd
            .args(["-D", "-e", "-f", "/dev/null", "-h", &path("host"), "-p", &port.to_string()])
            .arg(format!("-oAuthorizedKeysFile={}", path("user.pub")))
            .args(["-oListenAddress=127.0.0.1", "-oStrictModes=no", "-oPidFile=none", "-oUsePAM=no"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(sshd.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "sshd has ended");
        }
        // Nobody reads on, and it must not wait for that.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        let config = folder.join("config");
        let content = format!(
            "Host box\nHostName 127.0.0.1\nPort {port}\nIdentityFile {}\nUserKnownHostsFile /dev/null\n\
             StrictHostKeyChecking no\nLogLevel ERROR\nIdentitiesOnly yes\n",
            path("user")
        );
        fs::write(&config, content).unwrap();
        Sshd { process: sshd, config }
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn every_verb_works_by_ssh() {
    let there = Elsewhere::unadded();
    let sshd = Sshd::start(&there.scratch);
    let (config, home) = (sshd.config.display().to_string(), format!("HOME={}", there.home.display()));
    there.add(&["ssh", "-T", "-F", &config, "-o", "BatchMode=yes", "box", "env", &home, "sh"]);
    use_every_verb(&there, "bash");
    let stream = there.create("seq 1 500000");
    there.ts(&["wait", &stream, "--exit"]).code(0);
    let expected: String = (1..=500_000).map(|number| format!("{number}\r\n")).collect();
    there.ts(&["read", &stream]).code(0).stdout(expected).silent();
    there.ts(&["machine", "check", "box"]).code(0).stdout_has("ok    calls      round trip");
    there.ts(&["machine", "check", "box", "--json"]).code(0).stdout_has("\"calls\"");
    // One that asks for a password is one line, and at once.
    let why = ["-o", "PubkeyAuthentication=no", "box", "sh"];
    there.ts(&[&["machine", "add", "locked", "ssh", "-T", "-F", &config, "-o", "BatchMode=yes"][..], &why]
        .concat());
    there.ts(&["list", "--on=locked"]).code(255).complains("Permission denied");
}

#[test]
fn a_session_there_is_one_like_any_other_there() {
    let there = Elsewhere::new();
    let session = there.create("cat");
    assert_eq!(there.file(&session, "command"), "cat");
    let mut command = there.scratch.command(links().join("nbs-ts"));
    command.env_remove("NBS_TS_HOME").env("HOME", &there.home);
    let (_, bare) = session.split_once(':').unwrap();
    run(command.args(["list"])).code(0).stdout(format!("{bare}\talive\t-\tcat\n"));
}

#[test]
fn a_secret_arrives_and_is_in_no_argument_list() {
    let there = Elsewhere::new();
    let session = there.create("read -rs word; echo got ${#word}");
    let script = format!("nbs-ts send --secret-fd=7 {session} 7<<<'not-to-be-seen'");
    there.scratch.bash(&script).code(0).silent();
    there.ts(&["wait", &session, "--exit"]).code(0);
    there.ts(&["read", &session]).code(0).stdout_has("got 14");
}

#[test]
fn a_person_attaches_and_leaves_and_the_window_counts() {
    let there = Elsewhere::new();
    let (person, session) = (there.scratch.create_with(&["--size=100x30"], "bash"), there.create("bash"));
    let line = format!("nbs-ts attach --interactive {session}; echo left $?");
    there.ts(&["send", &person, &line]).code(0);
    let size = || there.ts(&["status", "--json", &session]).code(0).field("size");
    eventually("the window's size", || size().contains("100"));
    there.ts(&["send", &person, "echo 'one' two; stty size"]).code(0);
    there.ts(&["wait-pattern", &session, "one two\r\n30 100\r\n"]).code(0);
    eventually("it on the screen", || there.ts(&["screen", &person]).out().contains("\none two\n"));
    there.ts(&["resize", &person, "90x20"]).code(0);
    eventually("the other size", || size().contains("90"));
    there.ts(&["key", &person, "C-\\", "d"]).code(0);
    there.ts(&["wait", &person, "--pattern=left 0"]).code(0);
    eventually("the session's own size", || size().contains("80"));
    there.ts(&["send", &person, &line]).code(0);
    eventually("the window's size", || size().contains("90"));
    there.ts(&["kill", &session]).code(0);
    there.ts(&["wait", &person, "--pattern=left 0"]).code(0);
    there.ts(&["run", &person, "stty -a | grep -c ' echo '"]).code(0).stdout("1\n");
    there.ts(&["kill", &person]).code(0);
    there.scratch.ts(&["attach", "--interactive", &session]).code(1).complains("not a terminal");
}

#[test]
fn an_unreachable_machine_is_one_line_of_error() {
    let scratch = Scratch::new();
    let handle = "nowhere:01234567";
    let cases: [(&[&str], &str); 6] = [
        (&["/no/such/program"], "cannot run '/no/such/program'"),
        (&["sh", "-c", "echo go away >&2; exit 1"], "go away"),
        (&["sh", "-c", "echo hello; exit 0"], "hello"),
        (&["true"], "the command that connects ended"),
        (&["--", "true"], "the command that connects ended"),
        (&["script", "-qc", "sh", "/dev/null"], "terminal"),
    ];
    for (command, why) in cases {
        scratch.ts(&[&["machine", "add", "nowhere"][..], command].concat()).code(0);
        for call in [&["status", handle][..], &["create", "--on=nowhere", "cat"], &["list", "--on=nowhere"]] {
            let ran = scratch.ts(call).code(255).stdout("").complains(why);
            assert!(ran.err().contains("nothing was done"), "{ran:?}");
        }
        scratch.ts(&["machine", "check", "nowhere"]).code(1).stdout_has(why);
    }
}

#[test]
fn bad_names_are_told_and_start_nothing() {
    let scratch = Scratch::new();
    for word in [":01234567", "a:b:01234567", "box:", "box:nonsense", "-x:@a", "all:01234567", "a\u{7}:@b"] {
        let ran = scratch.ts(&["status", "--", word]).code(4);
        ran.complains("status");
    }
    scratch.ts(&["create", "--on=a:b", "cat"]).code(4).complains("is not the name of a machine");
    scratch.ts(&["create", "--on=all", "cat"]).code(4).complains("must name one machine");
    scratch.ts(&["kill", "--on=box", "01234567"]).code(4).complains("cannot use --");
    scratch.ts(&["machine", "add", "box"]).code(4).complains("missing COMMAND");
    scratch.ts(&["machine", "add", "box", "--"]).code(4).complains("missing COMMAND");
    scratch.ts(&["machine", "add", "all", "sh"]).code(4);
    scratch.ts(&["machine", "remove", "box"]).code(2).complains("there is no machine 'box'");
    assert!(!scratch.state().join("bridges").exists() || scratch.processes().is_empty());
}

#[test]
fn a_machine_that_prints_and_has_odd_folders_is_reached_all_the_same() {
    let there = Elsewhere::unadded();
    let login = there.scratch.path.join("login");
    let script = format!(
        "#!/bin/sh\nhead -c 65536 /dev/urandom; echo; echo welcome >&2\nHOME='{}' exec sh\n",
        there.home.display()
    );
    executable(&login, script);
    there.add(&[login.to_str().unwrap()]);
    let session = there.create("echo it works; cat");
    there.ts(&["wait", &session, "--pattern=it works"]).code(0);
}

/// In a mount namespace, where the test may be as root.
#[test]
fn a_folder_that_will_not_do_is_passed_over() {
    let there = Elsewhere::unadded();
    // Others may have what is called so on the path.
    let forged = "mkdir $HOME/f; for name in cat head ls id mv uname; do \
         printf '#!/bin/sh\\nexit 1\\n' >$HOME/f/$name; chmod 700 $HOME/f/$name; done; PATH=$HOME/f";
    let cases = [
        ("mount -t tmpfs -o noexec none $HOME/.cache", "tmp/nbs-0", "nothing can be executed there"),
        ("mount -t tmpfs -o size=512k none $HOME/.cache", "tmp/nbs-0", "does not run, or is not whole"),
        ("mount -t tmpfs -o ro none $HOME/.cache", "tmp/nbs-0", "not ours, or others may write"),
        ("mount -t tmpfs -o mode=777 none $HOME/.cache", "tmp/nbs-0", "others may write above it"),
        (
            "mount -t tmpfs -o noexec none $HOME/.cache; mkdir -m 700 /tmp/nbs-0; chown 12345 /tmp/nbs-0",
            "/dev/shm/nbs-0",
            "/tmp/nbs-0 it is not ours",
        ),
        (
            "mount -t tmpfs -o noexec none $HOME/.cache; ln -s $HOME /tmp/nbs-0",
            "/dev/shm/nbs-0",
            "/tmp/nbs-0 it is not ours",
        ),
        (
            "mount -t tmpfs -o noexec none $HOME/.cache; chmod 777 /tmp",
            "/dev/shm",
            "what it is in is not safe",
        ),
        (forged, ".cache/nbs", ""),
        ("unset PATH", ".cache/nbs", ""),
    ];
    for (preparation, folder, why) in cases {
        let script = format!(
            "export HOME='{}'; mount -t tmpfs -o mode=1777 none /tmp; mount -t tmpfs -o mode=1777 none /dev/shm; \
             mkdir -p $HOME/.cache; {preparation}; exec /bin/sh",
            there.home.display()
        );
        there.add(&["unshare", "-m", "sh", "-c", &script]);
        let checked = there.ts(&["machine", "check", "box"]).code(0).stdout_has(folder).stdout_has(why);
        drop(checked.stdout_has("ok    calls"));
    }
    let homeless = ["env", "-u", "HOME", "sh"];
    there.add(&homeless);
    there.ts(&["machine", "check", "box"]).code(1).stdout_has("neither NBS_TS_HOME nor HOME is set");
    there.ts(&["list", "--on=box"]).code(255).complains("neither NBS_TS_HOME nor HOME is set");
    there.add(&["env", &format!("HOME={}", there.home.display()), "sh"]);
}

#[test]
fn a_shell_completes_machines_and_their_sessions() {
    let there = Elsewhere::new();
    let complete = |word: &str| there.ts(&["--complete", "nbs-ts", "status", word]).code(0).out();
    assert!(complete("b").starts_with("box:\tenv HOME="));
    assert_eq!(complete("box:"), "");
    let named = there.ts(&["create", "--on=box", "--no-helper", "--name=work", "cat"]).code(0).out();
    assert_eq!(complete("box:"), format!("{}\tcat\nbox:@work\tcat\n", named.trim_end()));
    let on = there.ts(&["--complete", "nbs-ts", "list", "--on="]).code(0);
    on.stdout_has("--on=all\t").stdout_has("--on=box\t");
}

#[test]
fn a_client_of_the_model_context_protocol_names_the_machine() {
    let there = Elsewhere::new();
    let session = there.create("bash");
    let (_, bare) = session.split_once(':').unwrap();
    let calls = [
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"send","arguments":{{"session":"{bare}","machine":"box","text":"exit 6"}}}}}}"#),
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list","arguments":{"machine":"box"}}}"#.to_owned(),
    ];
    let input = there.scratch.path.join("messages");
    fs::write(&input, calls.join("\n") + "\n").unwrap();
    let mut server = there.scratch.applet("nbs-mcp");
    let answers = run(server.stdin(fs::File::open(input).unwrap())).code(0).out();
    let answer =
        |id: u32| answers.lines().find(|line| line.contains(&format!("\"id\":{id},"))).unwrap().to_owned();
    assert!(answer(1).contains("bytes typed"), "{answers}");
    assert!(answer(2).contains(&format!("{session}\\t")), "{answers}");
    there.ts(&["wait", &session, "--exit"]).code(0).stdout(format!("{session}\texit\t6\n"));
}

#[test]
fn advice_of_a_machine_names_commands_for_this_one() {
    let there = Elsewhere::new();
    let session = there.create("seq 1 100000; env | grep -c NBS_TS_MACHINE");
    there.ts(&["wait", &session, "--exit"]).code(0);
    let read = there.ts(&["read", &session, "--strip", "--max=1K"]).code(0).out();
    assert!(read.trim_end().ends_with("100000\n0"), "{read:?}");
    let line = read.lines().find(|line| line.starts_with("[nbs: ")).unwrap();
    assert!(line.contains(&format!("; nbs-ts read {session} --offset=")), "{line}");
    let shell = there.create("bash");
    let ran = there.ts(&["run", "--timeout=100", &shell, "read word"]).code(123);
    ran.complains(&format!("'nbs-ts send {shell} TEXT'"));
}

#[test]
fn a_far_side_that_lies_harms_nobody() {
    let scratch = Scratch::new();
    let liar = scratch.path.join("liar");
    let says = |what: &str| {
        executable(&liar, format!("#!/bin/sh\n{what}\n"));
        scratch.ts(&["machine", "add", "liar", liar.to_str().unwrap()]).code(0);
        scratch.ts(&["create", "--on=liar", "cat"]).code(255).stdout("")
    };
    // The mark is in the script in two halves.
    let mark = "read_mark() { while read -r line; do case $line in mark=\\$*) \
                two=${line#*\\}}; break;; mark=*) one=${line#mark=};; esac; done; }; read_mark; m=$one$two";
    says(&format!("{mark}; echo \"$m go /tmp\"; head -c 100000 /dev/urandom; sleep 1000"))
        .complains("it sent");
    says(&format!("{mark}; echo \"$m go /tmp\"; head -c 100000 /dev/zero; sleep 1000")).complains("it sent");
    says(&format!("{mark}; printf '%s nonsense\\033[31m\\n' \"$m\"; sleep 1000"))
        .complains("not from our script");
    says("yes | head -c 3000000; sleep 1000").complains("its output does not end");
    eventually("no process being left", || scratch.processes().is_empty());
}

fn signal(name: &str, pids: &[String]) {
    run(Command::new("kill").arg(format!("-{name}")).args(pids)).code(0);
}

fn kill(pid: &str) {
    run(Command::new("kill").args(["-9", pid])).code(0);
    eventually("its end", || !Path::new("/proc").join(pid).join("exe").exists());
}
