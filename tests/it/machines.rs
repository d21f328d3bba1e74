//! Sessions on other machines: every verb, over what stands for one.

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
        // What is in the pipes is lost with it, and nobody holds the others' ends.
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

    /// What there is of a session in its folder there.
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
    // What a script has executed is called by its path.
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
    // Of two bridges, each would take the other's connection away, time and again.
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
        // Where a server that does not run under systemd wants to be jailed.
        fs::create_dir_all("/run/sshd").unwrap();
        // One that nobody has at the moment.
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
fn streams_of_any_size_arrive_whole_in_both_directions() {
    let there = Elsewhere::new();
    let session = there.create("stty raw -echo; echo ready; sha1sum; sleep 60");
    there.ts(&["wait", &session, "--pattern=ready"]).code(0);
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| b'a' + (number * 7 % 23) as u8).collect();
    there
        .scratch
        .ts_with_input(&["send", "--stdin", "--no-enter", "--timeout=100", &session], &bytes)
        .code(0);
    let session = there.create("seq 1 700000");
    there.ts(&["wait", &session, "--exit"]).code(0);
    let expected: String = (1..=700_000).map(|number| format!("{number}\r\n")).collect();
    there.ts(&["read", &session]).code(0).stdout(expected).silent();
}

#[test]
fn changed_bytes_are_not_delivered_and_no_byte_is_lost() {
    let there = Elsewhere::unadded();
    there.add_line();
    let log = there.create("seq 1 30000");
    there.ts(&["wait", &log, "--exit"]).code(0);
    let expected: String = (1..=30_000).map(|number| format!("{number}\r\n")).collect();
    let reader = there.create("stty -echo -icanon; echo ready; exec cat >>got");
    there.ts(&["wait", &reader, "--pattern=ready"]).code(0);
    let got = || fs::read_to_string(there.home.join("got")).unwrap_or_default();
    let mut typed = String::new();
    for (number, (how, after)) in
        [("turn", 300), ("insert", 300), ("turn", 60_000), ("insert", 60_000)].into_iter().enumerate()
    {
        there.spoil_line("back", how, after);
        there.ts(&["read", &log]).code(0).stdout(&expected).silent();
        there.spoil_line("there", how, after);
        let more: String = (1..=8_000).map(|line| format!("{number} {line}\n")).collect();
        let send = ["send", "--stdin", "--no-enter", "--timeout=100", &reader];
        there.scratch.ts_with_input(&send, more.as_bytes()).code(0).silent();
        typed += &more;
        eventually("all that was typed", || got().len() >= typed.len());
        assert!(got() == typed, "{how} after {after}");
    }
}

#[test]
fn a_line_that_always_changes_what_passes_over_it_is_named() {
    let there = Elsewhere::unadded();
    there.add_line();
    let log = there.create("seq 1 30000");
    there.ts(&["wait", &log, "--exit"]).code(0);
    let expected: String = (1..=30_000).map(|number| format!("{number}\r\n")).collect();
    for direction in ["there", "back"] {
        there.spoil_line(direction, "always-turn", 10);
        let ran = there.ts(&["read", &log]).code(255).complains("its line is at fault");
        assert!(expected.starts_with(&ran.out()), "{ran:?}");
        there.mend_line();
        there.ts(&["status", &log]).code(0);
    }
}

#[test]
fn a_reader_that_has_gone_ends_what_follows_and_what_has_something_to_print() {
    let there = Elsewhere::new();
    let shell = there.create("bash");
    let script = format!(
        r#"
exec 3> >(:)
wait $!
nbs-ts run {shell} '(exit 7)' >&3
echo $?
nbs-ts status {shell} >&3
echo $?
nbs-ts attach {shell} >&3
echo $?
nbs-ts list --on=box --follow --json >&3
echo $?
nbs-ts run {shell} yes | head -1
echo ${{PIPESTATUS[0]}}
nbs-ts run {shell} 'echo on'
"#
    );
    there.scratch.bash(&script).code(0).stdout("7\n141\n141\n141\ny\n141\non\n").silent();
    let script = format!("nbs-ts run {shell} 'echo begun; sleep 1000' > /dev/full");
    there.scratch.bash(&script).code(125).complains("standard output");
    there.ts(&["run", &shell, "echo on"]).code(0).stdout("on\n").silent();
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
        (&["true"], "its command ended"),
        (&["--", "true"], "its command ended"),
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

/// By a command that sets none, which has that of the call that began the bridge.
#[test]
fn a_session_has_the_umask_of_the_command_that_leads_there() {
    let there = Elsewhere::new();
    let create = "umask 027; exec nbs-ts create --on=box --no-helper bash";
    let created = run(there.scratch.command("sh").args(["-c", create])).code(0);
    there.ts(&["run", created.out().trim_end(), "umask"]).code(0).stdout("0027\n");
}

#[test]
fn a_killed_bridge_loses_nothing() {
    let there = Elsewhere::new();
    let session = there.create("bash");
    let go = there.scratch.path.join("go");
    let command = format!("echo one; until [ -e {} ]; do sleep 0.01; done; echo two; (exit 9)", go.display());
    let call = there.scratch.start(&["run", &session, &command]);
    there.ts(&["wait-pattern", &session, "one\r\n"]).code(0);
    kill(&there.bridge());
    fs::write(&go, "").unwrap();
    call.finish().code(9).stdout("one\ntwo\n").silent();
    there.ts(&["run", &session, "echo three"]).code(0).stdout("three\n").silent();
}

/// Leaves a process no more descriptors than it has once it has only the socket that callers
/// connect to: who has ended may have left it another one, which it is about to close.
fn exhaust(pid: &str) {
    eventually("no caller", || sockets_of(pid) == 1);
    let is_free = |number: &u32| !Path::new(&format!("/proc/{pid}/fd/{number}")).exists();
    let limit = format!("--nofile={}:", (0..).find(is_free).unwrap());
    run(Command::new("prlimit").args(["--pid", pid, &limit])).code(0);
}

/// Waits until a process has connected to another one, and both sleep.
fn rests_while_another_waits(resting: &str, waiting: &str) {
    let sleeps = |pid: &str| state_of(pid) == Some('S');
    let links = |pid: &str| fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
    let has_socket = |pid: &str| {
        links(pid).any(|entry| {
            let link = entry.and_then(|entry| fs::read_link(entry.path())).unwrap_or_default();
            link.to_string_lossy().starts_with("socket:")
        })
    };
    eventually("somebody waiting", || has_socket(waiting) && sleeps(waiting));
    // Who tries again and again never sleeps.
    eventually("rest", || (0..200).all(|_| sleeps(resting)));
}

#[test]
fn a_bridge_without_descriptors_rests_until_there_are_some() {
    let there = Elsewhere::new();
    let session = there.create("cat");
    let bridge = there.bridge();
    exhaust(&bridge);
    let call = there.scratch.start(&["status", &session]);
    rests_while_another_waits(&bridge, &call.pid().to_string());
    run(Command::new("prlimit").args(["--pid", &bridge, "--nofile=1024:"])).code(0);
    call.finish().code(0).stdout("alive\n");
}

#[test]
fn a_far_side_without_descriptors_rests_until_there_are_some() {
    let there = Elsewhere::new();
    let session = there.create("cat");
    let far = |role: &str| {
        let pids = there.processes().into_iter();
        let words = |pid: &String| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        pids.filter(|pid| words(pid).contains(&format!("nbs-far\0{role}\0"))).collect::<Vec<_>>()
    };
    let serving = far("serve").pop().unwrap();
    kill(&there.bridge());
    eventually("the connection being lost", || far("connect").is_empty());
    exhaust(&serving);
    let call = there.scratch.start(&["status", &session]);
    eventually("another connection", || !far("connect").is_empty());
    rests_while_another_waits(&serving, &far("connect")[0]);
    run(Command::new("prlimit").args(["--pid", &serving, "--nofile=1024:"])).code(0);
    call.finish().code(0).stdout("alive\n");
}

/// Some of those between a call and its session stop: the call comes back all the same, and those
/// after it, when they go on.
fn call_while_some_are_stopped(who: impl Fn(&Elsewhere) -> Vec<String>, why: &str) {
    let there = Elsewhere::unadded();
    there.add(&["sh", "-c", &format!("cat | env HOME='{}' sh | cat", there.home.display())]);
    let session = there.create("cat");
    let who = who(&there);
    assert!(!who.is_empty());
    let waiting = there.scratch.start(&["wait", &session, "--exit", "--timeout=6"]);
    let is_call = |pid: &String| name_of(pid) == "nbs-call";
    eventually("the call's beginning", || there.processes().iter().any(is_call));
    signal("STOP", &who);
    waiting.finish().code(255).stdout("").complains(why);
    there.ts(&["wait", &session, "--exit", "--timeout=0.1"]).code(255).stdout("").complains("nbs-ts machine");
    signal("CONT", &who);
    there.ts(&["wait", &session, "--input", "--timeout=100"]).code(0);
    // Where the connection stands, it is a timeout like any other.
    there.ts(&["wait", &session, "--exit", "--timeout=0"]).code(3);
}

#[test]
fn a_call_comes_back_in_its_time_while_the_bridge_is_stopped() {
    call_while_some_are_stopped(|there| vec![there.bridge()], "is stopped; try 'kill -CONT");
}

#[test]
fn a_call_comes_back_in_its_time_while_the_transport_is_stopped() {
    call_while_some_are_stopped(Elsewhere::transport, "it is unknown whether it was done");
}

#[test]
fn a_call_comes_back_in_its_time_while_the_far_side_is_stopped() {
    let far = |there: &Elsewhere| -> Vec<String> {
        there.processes().into_iter().filter(|pid| name_of(pid) == "nbs-far").collect()
    };
    call_while_some_are_stopped(far, "it is unknown whether it was done");
}

#[test]
fn a_call_ends_by_its_timeout_though_what_executes_it_there_is_stopped() {
    let there = Elsewhere::new();
    let (shell, session) = (there.create("bash"), there.create("cat"));
    there.ts(&["wait", &shell, "--input"]).code(0);
    let calls: [(&[&str], i32); 2] = [
        (&["wait", &session, "--exit", "--timeout=6"], 3),
        (&["run", "--timeout=6", &shell, "sleep 1000"], 124),
    ];
    for (words, code) in calls {
        let waiting = there.scratch.start(words);
        let calls = || there.processes().into_iter().filter(|pid| name_of(pid) == "nbs-call");
        eventually("the call's beginning", || calls().count() == 1);
        let executing: Vec<String> = calls().collect();
        signal("STOP", &executing);
        let why = format!("'kill -CONT {}' there", executing[0]);
        waiting.finish().code(code).stdout("").complains(&why);
        eventually("its process being ended", || calls().count() == 0);
    }
}

#[test]
fn a_bridge_that_is_stopped_is_not_removed_unheard() {
    let there = Elsewhere::new();
    there.create("cat");
    let bridge = [there.bridge()];
    signal("STOP", &bridge);
    there.ts(&["machine", "remove", "box"]).code(3).complains("does not respond, and is stopped");
    signal("CONT", &bridge);
}

#[test]
fn a_bridge_ends_when_nobody_has_called_for_so_long_and_what_is_removed_leaves_nothing() {
    let there = Elsewhere::unadded();
    let home = format!("HOME={}", there.home.display());
    there.ts(&["machine", "add", "--idle=1s", "box", "env", &home, "sh"]).code(0).silent();
    let [session, ending] = ["sleep 1000", "read x"].map(|command| there.create(command));
    // A call that waits is one, however long.
    let waiting = there.scratch.start(&["wait", &ending, "--exit", "--timeout=100"]);
    eventually("its being there", || there.processes().iter().any(|pid| is_wait(pid)));
    let bridge = there.bridge();
    let longer = there.scratch.create("sleep 2");
    there.ts(&["wait", &longer, "--exit"]).code(0);
    assert_eq!(there.bridge(), bridge);
    there.ts(&["send", &ending, ""]).code(0);
    waiting.finish().code(0);
    eventually("its end", || !Path::new("/proc").join(&bridge).join("exe").exists());
    eventually("the far side's, too", || there.processes().iter().all(|pid| name_of(pid) != "nbs-far"));
    there.ts(&["status", &session]).code(0).stdout("alive\n");
    there.ts(&["kill", &session]).code(0);
    there.ts(&["machine", "remove", "box"]).code(0);
    let names: Vec<_> = fs::read_dir(there.scratch.state().join("bridges")).unwrap().collect();
    assert!(names.is_empty(), "{names:?}");
    there.ts(&["machine", "remove", "box"]).code(2);
    there.add(&["env", &home, "sh"]);
}

#[test]
fn a_call_whose_far_side_was_killed_does_not_guess() {
    let there = Elsewhere::new();
    let session = there.create("bash");
    let call = there.scratch.start(&["run", &session, "echo one; sleep 1000"]);
    there.ts(&["wait-pattern", &session, "one\r\n"]).code(0);
    // Both at once, before one of them does anything about the end of the other.
    let far: Vec<String> = there.processes().into_iter().filter(|pid| name_of(pid) == "nbs-far").collect();
    signal("KILL", &far);
    let ran = call.finish().code(255).complains("it is unknown whether it was done");
    assert!("one\n".starts_with(&ran.out()), "{ran:?}");
    // Sessions go on.
    there.ts(&["status", &session]).code(0).stdout("alive\n");
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
fn several_machines_in_one_call() {
    let there = Elsewhere::new();
    let other = there.scratch.path.join("other");
    fs::create_dir(&other).unwrap();
    let way = format!("HOME={}", other.display());
    let mark = way.as_bytes().to_vec();
    there.ts(&["machine", "add", "other", "env", &way, "sh"]).code(0);
    let here = there.scratch.create("sleep 1000");
    let (one, two) =
        (there.create("exit 4"), there.ts(&["create", "--on=other", "--no-helper", "sleep 1000"]));
    let two = two.code(0).out().trim_end().to_owned();
    let listed = there.ts(&["list", "--on=all"]).code(0).silent().out();
    let handles: Vec<&str> = listed.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(handles, [&here, &one, &two]);
    let waited = there.ts(&["wait", "--any", "--exit", &one, &two, &here]).code(0);
    waited.stdout(format!("{one}\texit\t4\n"));
    there.ts(&["find", "--on=all", "nobody"]).code(2);
    let work = there.ts(&["create", "--on=other", "--no-helper", "--name=work", "sleep 1000"]).code(0).out();
    there.ts(&["find", "--on=all", "work"]).code(0).stdout(&work).silent();
    there.ts(&["kill", work.trim_end()]).code(0);
    // Of those that live, wherever; on one machine there is none.
    let any = there.scratch.start(&["wait", "--any", "--all", "--on=all", "--exit", "--timeout=100"]);
    // It waits for those that live when it looks, and has connected to one.
    eventually("its call", || {
        processes(|environment| environment.split(|byte| *byte == 0).any(|entry| entry == mark))
            .iter()
            .any(|pid| is_wait(pid) && sockets_of(pid) >= 1)
    });
    there.ts(&["kill", "--keep", &two]).code(0);
    let met = any.finish().code(0).silent().out();
    assert!(met.starts_with(&format!("{two}\texit\t")), "{met}");
    there.ts(&["kill", "--keep", &here]).code(0);
    for line in there.ts(&["wait", "--all", "--on=all", "--exit"]).code(2).stdout("").err().lines() {
        assert!(line.contains("there is no live session"), "{line}");
    }
    there.ts(&["machine", "add", "gone", "false"]).code(0);
    let listed = there.ts(&["list", "--on=all"]).code(255).complains("gone: nothing was done");
    assert_eq!(listed.out().lines().count(), 3, "{listed:?}");
    there.ts(&["machine", "remove", "gone"]).code(0);
    there.ts(&["kill", &one, &two, &here]).code(0).silent();
    there.ts(&["machine", "remove", "other"]).code(0);
    let left = || processes(|environment| environment.split(|byte| *byte == 0).any(|entry| entry == mark));
    eventually("no process being left", || left().is_empty());
}

/// A machine of that name, in a home of its own.
fn add_another(there: &Elsewhere, name: &str) -> PathBuf {
    let home = there.scratch.path.join(name);
    fs::create_dir(&home).unwrap();
    there.ts(&["machine", "add", name, "env", &format!("HOME={}", home.display()), "sh"]).code(0);
    home
}

fn remove_another(there: &Elsewhere, name: &str, home: &Path) {
    there.ts(&["kill", "--all", &format!("--on={name}")]).code(0);
    there.ts(&["machine", "remove", name]).code(0);
    let mark = [b"HOME=", home.as_os_str().as_bytes()].concat();
    let left = || processes(|environment| environment.split(|byte| *byte == 0).any(|entry| entry == mark));
    eventually("no process being left", || left().is_empty());
}

#[test]
fn a_machine_that_cannot_be_reached_keeps_no_wait_from_the_others() {
    let there = Elsewhere::new();
    there.create("cat");
    there.ts(&["machine", "add", "gone", "false"]).code(0);
    for (words, code) in [(&["wait", "--any", "--exit"][..], 0), (&["wait", "--exit"], 255)] {
        let session = there.create("read word; exit 4");
        let waiting = there.scratch.start(&[words, &["gone:01234567", &session]].concat());
        eventually("the call there", || there.processes().iter().any(|pid| is_wait(pid)));
        // The other one was called before, and its bridge has ended.
        eventually("only one bridge", || there.bridges().len() == 1);
        there.ts(&["send", &session, "now"]).code(0);
        let ran = waiting.finish().code(code).stdout(format!("{session}\texit\t4\n"));
        assert!(ran.err().starts_with("nbs-ts: gone: nothing was done: "), "{ran:?}");
    }
    there.ts(&["wait", "--any", "--exit", "gone:01234567"]).code(255);
    there.ts(&["machine", "remove", "gone"]).code(0);
}

#[test]
fn a_bridge_that_is_stopped_is_told_of_behind_what_the_other_machines_list() {
    let there = Elsewhere::new();
    let session = there.create("cat");
    let still = add_another(&there, "still");
    there.ts(&["create", "--on=still", "--no-helper", "cat"]).code(0);
    let command = |pid: &String| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let bridges = there.bridges().into_iter();
    let bridge: Vec<String> = bridges.filter(|pid| command(pid).contains("\0still\0")).collect();
    signal("STOP", &bridge);
    // It comes back long before a bridge is given up that does not answer.
    let is_quick = || {
        let longer = there.scratch.create("sleep 30");
        let ran = there.scratch.bash("nbs-ts list --on=still --on=box 2>&1; echo $?").code(0);
        let said = format!("still: nothing was done: its bridge, process {}, does not respond, ", bridge[0]);
        let lines: Vec<String> = ran.out().lines().map(str::to_owned).collect();
        assert!(lines.len() == 3 && lines[0].starts_with(&session), "{ran:?}");
        assert!(lines[1].contains(&said) && lines[1].contains("'kill -CONT") && lines[2] == "255", "{ran:?}");
        let is_quick = there.ts(&["status", &longer]).code(0).out() == "alive\n";
        there.ts(&["kill", &longer]).code(0);
        is_quick
    };
    assert!((0..3).any(|_| is_quick()));
    signal("CONT", &bridge);
    remove_another(&there, "still", &still);
}

#[test]
fn a_look_at_all_machines_makes_nothing() {
    let scratch = Scratch::new();
    scratch.ts(&["machine", "list"]).code(0).stdout("").silent();
    scratch.ts(&["list", "--on=all"]).code(0).silent();
    assert!(!scratch.state().join("bridges").exists());
}

#[test]
fn a_part_of_a_call_that_a_signal_ends_is_told_as_shells_tell_it() {
    let there = Elsewhere::new();
    let (here, one) = (there.scratch.create("sleep 1000"), there.create("sleep 1000"));
    let waiting = there.scratch.start(&["wait", "--exit", &here, &one]);
    // The part for sessions that are here is a process of its own.
    let children = format!("/proc/{0}/task/{0}/children", waiting.pid());
    let part = || fs::read_to_string(&children).unwrap().trim().to_owned();
    eventually("its part for this machine", || !part().is_empty());
    run(Command::new("kill").args(["-KILL", &part()])).code(0);
    waiting.finish().code(128 + 9).stdout("");
    there.ts(&["kill", &here, &one]).code(0);
}

#[test]
fn sessions_of_several_machines_are_seen_and_waited_for_together() {
    let there = Elsewhere::new();
    let named = |words: &[&str]| there.ts(words).code(0).out().trim_end().to_owned();
    let works = named(&["create", "--no-helper", "--name=works", "exec sleep 1000"]);
    let read = "printf 'Delete? \\033[31mred'; read x; echo got $x; exec sleep 1000";
    let asks = named(&["create", "--on=box", "--no-helper", "--name=asks", read]);
    there.ts(&["create", "--on=box", "--no-helper", "--name=works", "exec sleep 1000"]).code(0);
    // Whoever waits first, wherever that is; a machine without sessions is none to wait for.
    let waited = there.ts(&["wait", "--any", "--all", "--on=all", "--waiting", "--exit"]).code(0);
    waited.stdout(format!("{asks}\twaiting\tline\n"));
    let empty = there.scratch.path.join("empty");
    fs::create_dir(&empty).unwrap();
    there.ts(&["machine", "add", "empty", "env", &format!("HOME={}", empty.display()), "sh"]).code(0);
    there.ts(&["wait", "--any", "--all", "--on=empty", "--waiting"]).code(2);
    there
        .ts(&["wait", "--any", "--all", "--on=empty", "--on=box", "--waiting"])
        .code(0)
        .stdout_has("waiting");
    there.ts(&["wait", "--any", "--all", "--on=empty", "--on=box", "--exit", "--timeout=0"]).code(3);
    there.ts(&["wait", "--any", "--name=asks", "--on=empty", "--on=box", "--exit", "--timeout=0"]).code(3);

    let rows = |words: &[&str]| -> Vec<String> {
        let listed = there.ts(words).code(0).silent().out();
        let firsts = listed.lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" "));
        firsts.collect()
    };
    let all = ["SESSION STATE", "box:@asks waiting", "@works working", "box:@works working"];
    eventually("all of them", || rows(&["list", "--long", "--on=all"]) == all);
    assert_eq!(rows(&["list", "--waiting", "--on=box", "--on=empty"]), all[..2]);
    assert_eq!(rows(&["top", "--once", "--on=all"]), all);
    // One that cannot be reached keeps nobody from the others.
    there.ts(&["machine", "add", "gone", "false"]).code(0);
    let listed = there.ts(&["list", "--long", "--on=gone", "--on=box"]).code(255);
    assert!(listed.complains("nbs-ts: gone: nothing was done").out().contains("box:@asks"));
    there.ts(&["machine", "remove", "gone"]).code(0);

    // What they do from now on is told as it comes.
    let mut follow = there.scratch.command("nbs-ts");
    let mut follow =
        follow.args(["list", "--json", "--follow", "--on=all"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut until = |parts: &[&str]| {
        let found = lines.find(|line| parts.iter().all(|part| line.contains(part)));
        assert!(found.is_some(), "{parts:?}");
    };
    until(&[&asks, "\"activity\":\"waiting\"", "\"question\":\"Delete? red\""]);
    there.ts(&["send", &asks, "yes"]).code(0);
    until(&[&asks, "\"activity\":\"working\""]);
    there.ts(&["kill", &works]).code(0);
    until(&[&works, "\"state\":\"removed\""]);
    drop(lines);
    // It sees that nobody reads any more.
    follow.wait().unwrap();
    there.ts(&["machine", "remove", "empty"]).code(0);
    let mark = [b"HOME=", empty.as_os_str().as_bytes()].concat();
    let left = || processes(|environment| environment.split(|byte| *byte == 0).any(|entry| entry == mark));
    eventually("no process being left", || left().is_empty());
}

#[test]
fn a_person_sees_the_sessions_of_a_machine_in_top_and_answers_them() {
    let there = Elsewhere::new();
    let asks = "printf 'Delete? \\033[31mred'; read x; echo got $x; exec sleep 1000";
    let asks = there.ts(&["create", "--on=box", "--no-helper", "--name=asks", asks]).code(0).out();
    there.ts(&["wait", asks.trim_end(), "--waiting"]).code(0);
    let person = there.scratch.create_with(&["--size=100x24"], "bash");
    there.ts(&["send", &person, "nbs-ts top --on=box; echo over $?"]).code(0);
    let sees = |what: &str, fact: &dyn Fn(&str) -> bool| {
        eventually(what, || fact(&there.ts(&["screen", &person]).code(0).out()));
    };
    let row = |screen: &str, state: &str| {
        screen.lines().any(|line| line.starts_with("box:@asks ") && line.contains(state))
    };
    let last = |screen: &str, text: &str| screen.trim_end().ends_with(text);
    sees("the one there", &|screen| row(screen, " waiting ") && screen.contains("\nDelete? red\n"));
    assert!(!there.ts(&["screen", &person]).out().contains(&person), "those here were not asked for");
    there.ts(&["send", "--no-enter", &person, "ayes"]).code(0);
    sees("the line", &|screen| last(screen, "answer box:@asks: yes"));
    there.ts(&["key", &person, "Enter"]).code(0);
    sees("what became of it", &|screen| row(screen, " working ") && screen.contains("\ngot yes\n"));
    // It is attached to, and left.
    there.ts(&["key", &person, "Enter"]).code(0);
    sees("the session alone", &|screen| screen.starts_with("Delete?"));
    there.ts(&["send", "--no-enter", &person, "\u{1c}d"]).code(0);
    sees("the list again", &|screen| row(screen, " working "));
    there.ts(&["send", "--no-enter", &person, "xy"]).code(0);
    sees("its end", &|screen| row(screen, " dead "));
    there.ts(&["send", "--no-enter", &person, "q"]).code(0);
    there.ts(&["wait", &person, "--pattern=over 0"]).code(0);
    // One that cannot be reached is told of.
    there.ts(&["machine", "add", "gone", "false"]).code(0);
    there.ts(&["send", &person, "nbs-ts top --on=gone; echo over $?"]).code(0);
    sees("that it is gone", &|screen| screen.contains("\ngone: nothing was done: its command ended"));
    there.ts(&["send", "--no-enter", &person, "q"]).code(0);
    there.ts(&["machine", "remove", "gone"]).code(0);
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

/// A project there, whose agent asks, and writes the answer into the task file.
fn furnish(there: &Elsewhere) {
    let agent = "#!/bin/bash\nexport task=${1#--root=}/.nbs/workers/$NBS_HANDLE.md\n\
        nbs-ts create --no-helper --name=\"$NBS_HANDLE\" -- 'read -rp \"How did it go? \" state\n\
            sed -i \"s/^State: running/State: $state/\" \"$task\"; sleep 1000'\n";
    executable(&there.home.join("project/.nbs/bin/nbs-claude"), agent);
    fs::write(there.home.join("skill.md"), "Do it well.\n").unwrap();
}

fn spawn_worker(there: &Elsewhere, words: &[&str]) -> Command {
    let mut command = there.scratch.applet("nbs-spawn-worker");
    command.args(words);
    command
}

#[test]
fn a_worker_is_started_seen_and_waited_for_on_another_machine() {
    let there = Elsewhere::new();
    furnish(&there);
    let spawn = ["--on=box", "tester", "project", "skill.md", "-x: as it is"];
    let said = run(&mut spawn_worker(&there, &spawn)).code(0).silent().out();
    let worker = said.trim_end();
    let handle = worker.strip_prefix("box:tester-").unwrap();
    let task = there.home.join(format!("project/.nbs/workers/tester-{handle}.md"));
    assert!(fs::read_to_string(&task).unwrap().contains("\n-x: as it is\n"));

    let session = format!("box:@tester-{handle}");
    eventually("its session", || there.ts(&["find", "--on=box", &session["box:@".len()..]]).out() != "");
    there.ts(&["wait", "--input", &session, "--timeout=30"]).code(0);
    fs::create_dir(there.scratch.path.join("project")).unwrap();
    let listed = run(&mut spawn_worker(&there, &["--list", "--on=box", "project"])).code(0).silent().out();
    // Its age may be another by then.
    let but_for_age = |line: &str| line.rsplit_once('\t').unwrap().0.to_owned();
    let session_of = but_for_age(&listed);
    assert!(session_of.starts_with(&format!("{worker}\trunning\t")), "{listed}");
    let of_all = run(&mut spawn_worker(&there, &["--list", "--on=all", "project"])).code(0).out();
    assert_eq!(but_for_age(&of_all), session_of);
    let object = run(&mut spawn_worker(&there, &["--list", "--on=all", "--json", "project"])).code(0).out();
    assert!(object.starts_with(r#"{"machine":"box","#), "{object}");
    assert!(object.contains(&format!(r#""handle":"{worker}""#)), "{object}");

    let mut wait = spawn_worker(&there, &["--wait", worker, "--root=project"]);
    let waiting = start(&mut wait);
    there.ts(&["send", &session, "escalated"]).code(0);
    waiting.finish().code(1).silent().stdout("escalated\n");

    run(&mut spawn_worker(&there, &["--on=box", "tester", "nowhere", "skill.md", "x"]))
        .code(1)
        .complains("nbs-spawn-worker: box: cannot use 'nowhere'");
    for words in
        [&["--on=all", "tester", "project", "skill.md", "x"][..], &["--wait=box:x"], &["--on=B", "--list"]]
    {
        run(&mut spawn_worker(&there, words)).code(4).stdout("");
    }
}

#[test]
fn a_job_on_another_machine_ends_with_who_waits_for_it() {
    let there = Elsewhere::new();
    furnish(&there);
    let job = || {
        let words = ["--foreground", "--on=box", "tester", "project", "skill.md", "x"];
        let job = start(&mut spawn_worker(&there, &words));
        eventually("its session", || there.ts(&["list", "--on=box"]).out().contains("\talive\t"));
        job
    };
    let told = job();
    run(Command::new("kill").arg(told.pid().to_string())).code(0);
    told.finish().code(143).stdout("").complains("was ended because we got SIGTERM");
    there.ts(&["list", "--on=box"]).code(0).stdout("");
    let asked = job();
    let session = there.ts(&["list", "--on=box"]).out().split('\t').next().unwrap().to_owned();
    there.ts(&["wait", "--input", &session, "--timeout=30"]).code(0);
    there.ts(&["send", &session, "completed"]).code(0);
    asked.finish().code(0).silent().stdout("completed\n");
}
