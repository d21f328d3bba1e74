mod elsewhere;
mod usage;
mod ways_out;
mod work;

use std::{fs, net::TcpListener, path::PathBuf, process::Command};

use crate::{
    confined::can_confine,
    support::{Ran, Scratch, binary, eventually, executable, run, start},
};

const PYTHON: &str = "/usr/bin/python3";

/// A test's directories: one that a session may use, and one with a file that it may not.
struct Places {
    scratch: Scratch,
    inside: PathBuf,
    outside: PathBuf,
}

impl Places {
    fn new() -> Places {
        let scratch = Scratch::new();
        let (inside, outside) = (scratch.path.join("inside"), scratch.path.join("outside"));
        for folder in [&inside, &outside] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(outside.join("key"), "the key").unwrap();
        fs::write(inside.join("file"), "mine").unwrap();
        Places { scratch, inside, outside }
    }

    fn root(&self, option: &str) -> String {
        format!("--{option}={}", self.inside.display())
    }

    /// A session with these options. If the kernel cannot confine, it must have been refused.
    fn create(&self, options: &[&str], command: &str) -> Option<String> {
        let ran = self.scratch.ts(&[&["create"], options, &[command]].concat());
        if can_confine() {
            return Some(ran.code(0).silent().out().trim_end().to_owned());
        }
        ran.code(1).stdout("").complains("the kernel has no Landlock");
        None
    }

    /// If no limit can be set, a profile `agent` without limits stands for the built-in one.
    fn have_profile(&self) {
        if !can_limit() {
            self.scratch.bash("umask 077; mkdir -p $NBS_TS_HOME/profiles");
            let agent = "write-root=.\nread-root=none\nno-network\nclear-env\n";
            fs::write(self.scratch.state().join("profiles/agent"), agent).unwrap();
        }
    }

    fn run(&self, handle: &str, command: &str) -> Ran {
        let variables = format!("i={} o={}; ", self.inside.display(), self.outside.display());
        self.scratch.ts(&["run", handle, &(variables + command)])
    }

    fn fails(&self, handle: &str, command: &str) {
        let ran = self.run(handle, command);
        assert!(!ran.status.success(), "{ran:?}");
    }
}

/// The version of Landlock, asked for the way that the program does not ask.
fn landlock() -> i32 {
    let ask = "import ctypes; print(ctypes.CDLL(None).syscall(444, None, 0, 1))";
    run(Command::new(PYTHON).args(["-c", ask])).code(0).out().trim().parse().unwrap()
}

/// Is a cgroup of version 2 within reach, with what limits memory?
fn can_limit() -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let at = mounts.lines().find_map(|line| line.split_once(" - cgroup2 ")?.0.split(' ').nth(4));
    let ours = fs::read_to_string("/proc/self/cgroup").unwrap();
    let ours = ours.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned);
    let folder = at.zip(ours).map(|(at, ours)| format!("{at}{ours}/cgroup.controllers"));
    let controllers = folder.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
    controllers.contains("memory") && controllers.contains("pids")
}

#[test]
fn limits_hold_or_are_refused() {
    let places = Places::new();
    let scratch = &places.scratch;
    for (bad, why) in
        [("--memory=1", "1M"), ("--tasks=0", "--tasks"), ("--cpu=x", "--cpu"), ("--cpu=0", "--cpu")]
    {
        scratch.ts(&["create", bad, "true"]).code(4).complains(why);
    }
    let _helper = start(scratch.command(binary()).arg("ts-helper"));
    eventually("the helper", || scratch.state().join("helper.sock").exists());
    for way in ["--no-helper", "--require-helper"] {
        let create =
            |options: &[&str], command| scratch.ts(&[&["create", way], options, &[command]].concat());
        if !can_limit() {
            create(&["--memory=64M", "--cpu=50"], "true")
                .code(1)
                .stdout("")
                .complains("for --memory, --cpu: ");
            assert_eq!(scratch.ts(&["list"]).out(), "");
            continue;
        }
        let hog =
            create(&["--memory=64M"], "/usr/bin/python3 -c 'bytearray(1 << 28)'; sleep 100").code(0).out();
        scratch.ts(&["wait", hog.trim_end(), "--exit"]).code(0);
        assert_eq!(scratch.ts(&["status", "--json", hog.trim_end()]).field("ended_by"), "\"memory\"");
        let bomb = create(&["--tasks=20"], "bash").code(0).out();
        let many = "for i in {1..40}; do sleep 5 & done 2>&1 | grep -c 'Resource temporarily'";
        scratch.ts(&["run", bomb.trim_end(), many]);
        scratch.ts(&["kill", bomb.trim_end()]).code(0);
    }
}

#[test]
fn a_session_reads_only_its_roots_and_the_system() {
    let places = Places::new();
    let _helper = start(places.scratch.command(binary()).arg("ts-helper"));
    eventually("the helper", || places.scratch.state().join("helper.sock").exists());
    for way in ["--no-helper", "--require-helper"] {
        for roots in [places.root("read-root"), places.root("write-root")] {
            let Some(handle) = places.create(&[way, "--read-root=none", &roots], "bash") else { return };
            let work = "cat $i/file && ls $i && cp /bin/true $TMPDIR/t && $TMPDIR/t && sort < /etc/passwd > /dev/null \
                        && (exit 0) && cat <(echo sub) && cat <<< here";
            places.run(&handle, work).code(0).stdout("minefile\nsub\nhere\n").silent();
            for attack in [
                "cat $o/key",
                "ls $o",
                "ls $i/..",
                "echo x > $o/new",
                "cp $o/key $TMPDIR",
                "ls ~",
                ". $o/key",
            ] {
                places.fails(&handle, attack);
            }
            let writes = places.run(&handle, "echo x > $i/new").status.success();
            assert_eq!(writes, roots.starts_with("--write-root"), "{roots}");
            let _ = fs::remove_file(places.inside.join("new"));
            // A long command comes by a file in the session's directory.
            let long = format!("echo {}", "x".repeat(5_000));
            places.run(&handle, &long).code(0).stdout(format!("{}\n", "x".repeat(5_000)));
            places.scratch.ts(&["kill", &handle]).code(0);
        }
    }
}

#[test]
fn no_jailed_session_reaches_the_state_directory() {
    let places = Places::new();
    let other = places.scratch.create("cat");
    let inputs = places.scratch.folder(&other);
    fs::write(places.scratch.home().join("file"), "a file of mine\n").unwrap();
    for options in [&["--no-network"][..], &[&places.root("write-root")], &["--read-root=none"]] {
        let Some(handle) = places.create(&[&["--no-helper"], options].concat(), "bash") else { return };
        for attack in [
            format!("cat {}/output.log", inputs.display()),
            format!("echo x > {}/input.fifo", inputs.display()),
            format!("timeout 1 cat {}/input.fifo", inputs.display()),
            format!("cat {}", places.scratch.file(&handle, "secret").lines().next().unwrap_or("/none")),
            format!("rm -r {}", inputs.display()),
            format!("mv {} $TMPDIR/", inputs.display()),
            format!("cp -r {} $TMPDIR/x", inputs.display()),
            format!("ln {}/output.log $TMPDIR/x", inputs.display()),
            format!("echo x > {}/exit.json", places.scratch.folder(&handle).display()),
            format!("echo x >> {}/output.log", places.scratch.folder(&handle).display()),
            format!("cat < {}", fs::read_to_string(inputs.join("slave_pty")).unwrap()),
            format!("echo x > {}", fs::read_to_string(inputs.join("slave_pty")).unwrap()),
        ] {
            places.fails(&handle, &attack);
        }
        // Everything else is unrestricted by default.
        if options != ["--read-root=none"] {
            places.run(&handle, "cat $o/key ~/file").code(0).stdout("the keya file of mine\n");
        }
        if options == ["--no-network"] {
            places
                .run(&handle, "echo x > $o/made && mv $o/made $i/ && rm $i/made && echo x > /dev/null")
                .code(0);
        }
        places.scratch.ts(&["kill", &handle]).code(0);
    }
    for option in ["read-root", "write-root"] {
        for root in [places.scratch.path.clone(), "/".into(), places.scratch.state().join("sessions")] {
            let option = format!("--{option}={}", root.display());
            let ran = places.scratch.ts(&["create", "--no-helper", &option, "true"]);
            ran.code(1).stdout("").complains("the state directory");
        }
    }
    places.scratch.ts(&["read", &other]).code(0).stdout("");
}

#[test]
fn a_directory_that_may_not_be_listed_is_named_with_the_reason() {
    let places = Places::new();
    let Some(handle) = places.create(&["--no-helper", "--read-root=none"], "bash") else { return };
    let nbs = binary().canonicalize().unwrap();
    let ran = places.run(&handle, &format!("{} ts list", nbs.display()));
    assert_eq!(ran.status.code(), Some(1));
    assert!(ran.out().contains("Permission denied"), "{ran:?}");
}

#[test]
fn a_session_without_a_network_makes_no_socket_but_pairs() {
    let places = Places::new();
    let Some(handle) = places.create(&["--no-helper", "--no-network"], "bash") else { return };
    let python = |code: &str| places.run(&handle, &format!("{PYTHON} -c 'import socket\n{code}'"));
    python("one, two = socket.socketpair(); print(one.send(b\"xy\"))").code(0).stdout("2\n");
    for made in ["socket.socket()", "socket.socket(socket.AF_UNIX)", "socket.socketpair(1, 2)"] {
        let ran = python(made);
        assert!(ran.out().contains("Permission denied"), "{ran:?}");
    }
    // Its programs see their own session.
    let nbs = binary();
    let own = |verb: &str| places.run(&handle, &format!("{} ts {verb} $NBS_TS_SESSION", nbs.display()));
    own("status").code(0).stdout("alive\n");
    // Fields that only the relay knows are null.
    let told = own("status --json").code(0);
    assert_eq!(["state", "terminal"].map(|field| told.field(field)), ["\"alive\"", "null"], "{told:?}");
    let waited = own("wait --exit --timeout=1");
    assert!(waited.out().contains("this process may not use sockets"), "{waited:?}");
    // And they report by their terminal.
    let report = format!("{} ts report working tests; cat", nbs.display());
    places.scratch.ts(&["send", &handle, &report]).code(0);
    let is_told = || places.scratch.ts(&["status", "--json", &handle]).out().contains("\"msg\":\"tests\"");
    eventually("the report", is_told);
}

#[test]
fn only_a_named_port_may_be_connected_to() {
    let places = Places::new();
    let (yes, no) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    let option = format!("--connect={}", port(&yes));
    if can_confine() && landlock() < 4 {
        let ran = places.scratch.ts(&["create", "--no-helper", "--no-network", &option, "bash"]);
        ran.code(1).stdout("").complains("Linux 6.7");
        return;
    }
    let Some(handle) = places.create(&["--no-helper", "--no-network", &option], "bash") else { return };
    let code = format!(
        r#"
import socket
def tried(work):
    try: work()
    except OSError as error: return error.errno
    return 0
to = lambda port: ("127.0.0.1", port)
new = lambda *kind: socket.socket(*(kind or (2, 1)))
print(tried(lambda: new().connect(to({}))), [tried(work) for work in (
    lambda: new().connect(to({no})),
    lambda: new(10, 1).connect(("::ffff:127.0.0.1", {no})),
    lambda: new().sendto(b"x", 0x20000000, to({no})),
    lambda: new().sendmsg([b"x"], [], 0x20000000, to({no})),
    lambda: new().bind(to(0)),
    lambda: new().listen(),
    lambda: new(2, 2),
    lambda: new(2, 1, 262),
    lambda: new(1, 1),
    lambda: new(16, 3),
    lambda: new().setsockopt(6, 31, b"smc"),
)])
"#,
        port(&yes),
        no = port(&no)
    );
    let script = places.inside.join("connect.py");
    fs::write(&script, code).unwrap();
    let ran = places.run(&handle, &format!("{PYTHON} {}", script.display()));
    ran.code(0).stdout("0 [13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 1]\n");
}

#[test]
fn variables_are_hidden_wherever_the_session_comes_from() {
    let places = Places::new();
    let mut helper = places.scratch.command(binary());
    let _helper = start(helper.arg("ts-helper").env("SECRET_TOKEN", "helper").env("PLAIN", "helper"));
    eventually("the helper", || places.scratch.state().join("helper.sock").exists());
    fs::write(places.scratch.home().join(".bash_profile"), "export SECRET_TOKEN=profile\n").unwrap();
    let scratch = &places.scratch;
    for way in ["--no-helper", "--require-helper"] {
        let create = |options: &str| {
            let line = format!("SECRET_TOKEN=caller PLAIN=caller nbs-ts create {way} {options} bash");
            scratch.bash(&line).code(0).out().trim_end().to_owned()
        };
        let hidden = create("--hide-env='SECRET*' --env=SECRET_KIND=given");
        let seen = scratch.ts(&["run", &hidden, "env | grep -E 'SECRET|PLAIN' | sed 's/=.*//' | sort"]);
        seen.code(0).stdout("PLAIN\nSECRET_KIND\n");
        let clear = create("--clear-env --env=GIVEN=1");
        let seen =
            scratch.ts(&["run", &clear, "echo $HOME $GIVEN $SECRET_TOKEN $PLAIN; echo ${PATH:+path} $TERM"]);
        seen.code(0).stdout(format!("{} 1\npath xterm-256color\n", scratch.home().display()));
        // Neither has a process of nbs.
        for handle in [&hidden, &clear] {
            let relay = scratch.file(handle, "daemon_pid");
            let environment = fs::read_to_string(format!("/proc/{}/environ", relay.trim())).unwrap();
            assert!(!environment.contains("SECRET_TOKEN"), "{environment}");
        }
        let told = scratch.ts(&["status", "--json", &hidden]).code(0).out();
        assert!(told.contains("\"hide_env\":[\"SECRET*\"]") && !told.contains("caller"), "{told}");
        scratch.ts(&["kill", &hidden, &clear]).code(0);
    }
}

#[test]
fn a_confinement_is_told_and_kept_by_restart() {
    let places = Places::new();
    let scratch = &places.scratch;
    let (read, write) = (places.root("read-root"), places.root("write-root"));
    let options =
        ["--no-helper", "--name=jail", &read, &write, "--no-network", "--clear-env", "--hide-env=A*"];
    let Some(first) = places.create(&options, "bash") else { return };
    let inside = places.inside.display();
    let told = format!(
        "\"confinement\":{{\"write_roots\":[\"{inside}\"],\"read_roots\":[\"{inside}\"],\"no_network\":true,\"connect\":[],\
         \"clear_env\":true,\"hide_env\":[\"A*\"],\"memory\":null,\"tasks\":null,\"cpu\":null,\"profile\":null}}"
    );
    let is_told = |handle: &str| scratch.ts(&["status", "--json", handle]).out().contains(&told);
    assert!(is_told(&first));
    scratch.ts(&["send", &first, "exit"]).code(0);
    scratch.wait_for_end(&first);
    let again = scratch.bash(&format!("AB=1 nbs-ts restart --no-helper {first}")).code(0).out();
    let again = again.trim_end();
    assert!(is_told(again));
    places.fails(again, "cat $o/key");
    scratch.ts(&["run", again, "echo ${AB-none}"]).code(0).stdout("none\n");
    let ensure = |options: &[&str]| scratch.ts(&[&["ensure", "--name=jail"], options].concat());
    ensure(&options[2..]).code(0).stdout(format!("{again}\n"));
    let outside = format!("--read-root={}", places.outside.display());
    ensure(&[&outside]).code(1).complains("it may write to '");
    assert_eq!(scratch.ts(&["status", "--json", &scratch.create("cat")]).field("confinement"), "null");
    scratch.create_with(&["--name=open"], "cat");
    let open = |option: &str| scratch.ts(&["ensure", "--name=open", option]);
    open("--read-root=none").code(1).complains("it may write everywhere");
    open("--no-network").code(1).complains("it may use the network");
    for (bad, why) in
        [("--connect=80", "--no-network"), ("--connect=0", "port"), ("--read-root=", "--read-root")]
    {
        scratch.ts(&["create", bad, "true"]).code(4).complains(why);
    }
}

#[test]
fn a_profile_stands_for_its_options() {
    let places = Places::new();
    let scratch = &places.scratch;
    let inside = places.inside.display().to_string();
    let cwd = format!("--cwd={inside}");
    let told = |handle: &str| scratch.ts(&["status", "--json", handle]).code(0).out();
    if !can_limit() {
        // A limit that cannot be set is an error; a file goes before the built-in profile.
        scratch
            .ts(&["create", "--no-helper", "--profile=agent", &cwd, "bash"])
            .code(1)
            .complains("--memory, --tasks");
    }
    places.have_profile();
    if let Some(agent) = places.create(&["--no-helper", "--profile=agent", &cwd], "bash") {
        let confinement = format!(
            "\"confinement\":{{\"write_roots\":[\"{inside}\"],\"read_roots\":[],\"no_network\":true,\"connect\":[],\
             \"clear_env\":true,\"hide_env\":[],\"memory\":"
        );
        assert!(told(&agent).contains(&confinement), "{}", told(&agent));
        places.run(&agent, "cat file && echo x > new && rm new").code(0).stdout("mine");
        places.fails(&agent, "cat $o/key");
        // The state directory's parent cannot be a jail.
        scratch
            .bash("cd $NBS_TS_HOME/.. && nbs-ts create --profile=agent bash")
            .code(1)
            .complains("state directory");
    }
    scratch.bash(
        "umask 077; mkdir -p $NBS_TS_HOME/profiles; cd $NBS_TS_HOME/profiles; printf 'hide-env=A\\nname=x\\n' > bad
         printf '# A profile.\\nhide-env=SECRET*\\n--hide-env=TOKEN\\n' > mine",
    );
    let create = "SECRET_A=1 TOKEN=2 KEY=3 nbs-ts create --no-helper --hide-env=KEY --env=TOKEN=given bash";
    let handle = scratch.bash(&format!("NBS_TS_PROFILE=mine {create}")).code(0).out().trim_end().to_owned();
    scratch.ts(&["run", &handle, "echo $SECRET_A-$TOKEN-$KEY"]).code(0).stdout("-given-\n");
    assert!(told(&handle).contains("\"hide_env\":[\"SECRET*\",\"TOKEN\",\"KEY\"],\"memory\":null,\"tasks\":null,\"cpu\":null,\"profile\":\"mine\""));
    for (name, code, why) in
        [("bad", 1, "line 2"), ("none", 1, "profiles/none"), ("a/b", 4, "--profile"), ("..", 1, "'..'")]
    {
        scratch.ts(&["create", &format!("--profile={name}"), "true"]).code(code).stdout("").complains(why);
    }
    let checked = scratch.ts(&["doctor"]).code(0);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    checked.stdout_has(&format!("confinement: Linux {}: ", kernel.trim_end()));
}

#[test]
fn a_worker_whose_session_lacks_the_profile_is_ended() {
    let places = Places::new();
    let scratch = &places.scratch;
    let profiles = scratch.state().join("profiles");
    fs::create_dir_all(&profiles).unwrap();
    fs::write(profiles.join("mine"), "hide-env=SECRET\n").unwrap();
    fs::write(places.inside.join("skill"), "A skill.\n").unwrap();
    let agent = places.inside.join("agent");
    for (escape, state) in [("", "completed"), ("env -u NBS_TS_PROFILE ", "ended")] {
        let done = "sed -i 's/^State: running/State: completed/' .nbs/workers/$NBS_HANDLE.md";
        let script = format!(
            "#!/bin/bash\ncd {}\n{escape}nbs-ts create --no-helper --name=$NBS_HANDLE bash >/dev/null\n\
             [ '{escape}' ] || {done}\n",
            places.inside.display()
        );
        executable(&agent, script);
        let mut worker = scratch.applet("nbs-spawn-worker");
        worker
            .args(["--foreground", "--profile=mine", "--timeout=60"])
            .arg(format!("--agent={}", agent.display()));
        let ran = run(worker.arg("tester").arg(&places.inside).arg(places.inside.join("skill")).arg("Test."));
        assert_eq!(ran.out(), format!("{state}\n"), "{ran:?}");
    }
}
