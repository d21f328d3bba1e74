use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::symlink,
    },
    path::{Path, PathBuf},
    process::Command,
};

use crate::support::{Scratch, eventually, executable, is_running, run};

/// An agent that writes a report of its start, and stays until it is asked to end. bash adds nothing to what
/// /proc shows of its start.
const AGENT: &str = r#"#!/bin/bash
at=$REPORT
printf '%s\0' "$0" "$@" > "$at/words"
cat /proc/$$/environ > "$at/environment"
readlink /proc/$$/fd/{0..99} > "$at/descriptors"
umask > "$at/umask"
cut -d ' ' -f 6,7 /proc/$$/stat > "$at/session"
echo $$ > "$at/pid.new"
mv "$at/pid.new" "$at/pid"
until [[ -e $at/go ]]; do read -r -t 0.05 <> <(:); done
"#;

/// An agent, and its report.
struct Agent {
    path: PathBuf,
    report: PathBuf,
}

impl Agent {
    fn new(scratch: &Scratch, path: impl AsRef<Path>) -> Agent {
        let (path, report) = (scratch.path.join(path), scratch.path.join("report"));
        executable(&path, AGENT);
        fs::create_dir(&report).unwrap();
        Agent { path, report }
    }

    fn launch(&self, scratch: &Scratch, handle: &OsStr, root: &OsStr, prompt: &OsStr) -> Command {
        let mut command = scratch.applet("nbs-launch-agent");
        command.args([handle, root, self.path.as_os_str(), prompt]).env("REPORT", &self.report);
        command
    }

    fn plainly(&self, scratch: &Scratch) -> Command {
        self.launch(scratch, "a-0".as_ref(), scratch.path.as_os_str(), "Go.".as_ref())
    }

    fn read(&self, name: &str) -> Vec<u8> {
        eventually("the agent's report", || self.report.join("pid").exists());
        fs::read(self.report.join(name)).unwrap()
    }

    fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(&self.read(name)).into_owned()
    }

    fn words(&self) -> Vec<OsString> {
        let words = self.read("words");
        words.strip_suffix(b"\0").unwrap().split(|byte| *byte == 0).map(os).collect()
    }

    fn environment(&self) -> Vec<OsString> {
        let entries = self.read("environment");
        let mut entries: Vec<OsString> = entries.split(|byte| *byte == 0).map(os).collect();
        entries.retain(|entry| !entry.is_empty());
        entries.sort();
        entries
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        fs::write(self.report.join("go"), "").unwrap();
        if let Ok(pid) = fs::read_to_string(self.report.join("pid")) {
            eventually("the agent's end", || !is_running(pid.trim()));
        }
    }
}

fn os(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

/// Nothing that a shell, an option parser or UTF-8 could make of it may matter.
const AWKWARD: [&[u8]; 7] = [
    b"it's \"q\" `id` $(id) $HOME ${x} \\ ; & | > < * ? [a] ~ # ! {a,b}",
    b"two\nlines\n\n",
    b"-n --help",
    b"--json",
    b" blanks\t ",
    b"\xff\xfe not UTF-8 \x01\x1b[31m",
    b"",
];

#[test]
fn every_byte_arrives_as_it_was_given() {
    for bytes in AWKWARD {
        let scratch = Scratch::new();
        let value = os(bytes);
        let place = os(&[b"-p ", &bytes.replace_slashes()[..], b"/a'$gent \xff"].concat());
        let agent = Agent::new(&scratch, &place);
        // A handle that begins with a dash comes after `--`.
        let mut command = scratch.applet("nbs-launch-agent");
        command.arg("--").args([&value, &value]).arg(&place).arg(&value).env("REPORT", &agent.report);
        run(&mut command).code(0).silent().stdout("");
        let root = os(&[b"--root=", bytes].concat());
        assert_eq!(agent.words()[1..], [root, "--dangerously-skip-permissions".into()]);
        assert_eq!(agent.words()[0], agent.path);
        for name in ["NBS_HANDLE", "NBS_INITIAL_PROMPT"] {
            let entry = os(&[name.as_bytes(), b"=", bytes].concat());
            assert!(agent.environment().contains(&entry), "{entry:?}: {:?}", agent.environment());
        }
    }
}

trait Slashless {
    fn replace_slashes(&self) -> Vec<u8>;
}

impl Slashless for &[u8] {
    fn replace_slashes(&self) -> Vec<u8> {
        self.iter().map(|byte| if *byte == b'/' { b'_' } else { *byte }).collect()
    }
}

/// Launched by exec from a program of another kind, agents end early; bash leaves a trace, the `_` of its
/// command.
#[test]
fn bash_starts_the_agent_by_setsid_and_a_constant_script() {
    let scratch = Scratch::new();
    let shell = scratch.path.join("bin/bash");
    executable(&shell, "#!/bin/sh\nprintf '%s\\0' \"$@\" >> \"$REPORT/bash\"\nexec /bin/bash \"$@\"\n");
    let path = format!("{}:{}", scratch.path.join("bin").display(), std::env::var("PATH").unwrap());
    let mut texts = Vec::new();
    for prompt in ["one", "$(two) 'x'"] {
        let agent = Agent::new(&scratch, "agent");
        let mut command = agent.launch(&scratch, "a-0".as_ref(), "/".as_ref(), prompt.as_ref());
        run(command.env("PATH", &path)).code(0).silent();
        let setsid = agent
            .environment()
            .iter()
            .any(|entry| entry.as_bytes().starts_with(b"_=") && entry.as_bytes().ends_with(b"/setsid"));
        assert!(setsid, "{:?}", agent.environment());
        let session = agent.text("session");
        let (session, terminal) = session.trim().split_once(' ').unwrap();
        assert_eq!((session, terminal), (agent.text("pid").trim(), "0"), "its own session, no terminal");
        let words = agent.text("bash");
        texts.push(words.split('\0').find(|word| word.contains("setsid")).unwrap().to_owned());
        drop(agent);
        fs::remove_dir_all(scratch.path.join("report")).unwrap();
    }
    let line = "NBS_HANDLE=$1 NBS_TRANSPORT=ts NBS_INITIAL_PROMPT=$4 setsid \"$3\" --root=\"$2\" \
                --dangerously-skip-permissions <&0 >/dev/null 2>&1 &";
    assert_eq!(texts, [line, line]);
}

#[test]
fn the_agent_starts_without_setsid_or_bash() {
    for shells in [&["bash", "sh"][..], &["bash"], &["sh"]] {
        let scratch = Scratch::new();
        let agent = Agent::new(&scratch, "agent");
        let bin = scratch.path.join("bin");
        fs::create_dir(&bin).unwrap();
        for program in [shells, &["cat", "cut", "mv", "readlink"]].concat() {
            symlink(Path::new("/bin").join(program), bin.join(program)).unwrap();
        }
        let mut command = agent.plainly(&scratch);
        run(command.env("PATH", &bin).env("AGENT", "1")).code(0).silent().stdout("");
        let root = os(&[b"--root=", scratch.path.as_os_str().as_bytes()].concat());
        assert_eq!(agent.words()[1..], [root, "--dangerously-skip-permissions".into()]);
        let environment = agent.environment();
        for entry in ["NBS_HANDLE=a-0", "NBS_TRANSPORT=ts", "NBS_INITIAL_PROMPT=Go."] {
            assert!(environment.contains(&entry.into()), "{entry}: {environment:?}");
        }
        assert!(!environment.contains(&"AGENT=1".into()), "{environment:?}");
        let ours = fs::read_to_string("/proc/self/stat").unwrap();
        let ours = ours.split(' ').nth(5).unwrap();
        let session = agent.text("session");
        let (session, terminal) = session.trim().split_once(' ').unwrap();
        assert!(session != ours && terminal == "0", "{session} {terminal}, and ours {ours}");
        assert_eq!(agent.text("descriptors"), "/dev/null\n/dev/null\n/dev/null\n");
    }
}

#[test]
fn its_standard_input_is_the_callers_and_no_other_descriptor_is() {
    let scratch = Scratch::new();
    let agent = Agent::new(&scratch, "agent");
    fs::write(scratch.path.join("in"), "for the agent\n").unwrap();
    // A lock that the agent held on to would be held as long as it lives. (`cat` does not have
    // it: it was started before.)
    let script = r#"exec 7> >(cat) 9> lock; flock 9 || exit
        nbs-launch-agent a-0 "$PWD" ./agent Go. < in 8< in
        exec 9>&-; flock --nonblock lock echo free"#;
    run(scratch.command("bash").args(["-c", script]).env("REPORT", &agent.report)).code(0).stdout("free\n");
    let descriptors = agent.text("descriptors");
    let expected = format!("{}\n/dev/null\n/dev/null\n", scratch.path.join("in").display());
    assert_eq!(descriptors, expected);
}

#[test]
fn the_agent_has_the_callers_environment_without_nesting_variables() {
    let scratch = Scratch::new();
    let agent = Agent::new(&scratch, "agent");
    let kept = ["CLAUDE_X=1", "TMUX_TMPDIR=1", "AGENTS=1", "KEEP-ME=1", "ODD=a=b\n'\"$x", "CODEX=1"];
    let gone = [
        "CLAUDECODE",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_",
        "TMUX",
        "TMUX_PANE",
        "AGENT",
        "CODEX_HOME",
        "CODEX_A-B",
        "CODING_AGENT_X",
        "OTEL_A.B",
        "OTEL_SERVICE_NAME",
    ];
    let mut command = agent.plainly(&scratch);
    let entry = |entry: &str| entry.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    command.envs(kept.iter().filter_map(|each| entry(each))).envs(gone.map(|name| (name, "1")));
    run(&mut command).code(0).silent();
    let mut expected: Vec<OsString> = command
        .get_envs()
        .filter_map(|(name, value)| Some([name, value?].join("=".as_ref())))
        .filter(|entry| !gone.iter().any(|name| entry.as_bytes().starts_with(format!("{name}=").as_bytes())))
        .collect();
    expected.extend(["NBS_HANDLE=a-0", "NBS_TRANSPORT=ts", "NBS_INITIAL_PROMPT=Go."].map(OsString::from));
    expected.sort();
    // A shell's own.
    let own = ["_", "SHLVL", "PWD", "OLDPWD"].map(|name| format!("{name}="));
    let mut environment = agent.environment();
    environment.retain(|entry| !own.iter().any(|name| entry.as_bytes().starts_with(name.as_bytes())));
    assert_eq!(environment, expected);
}

#[test]
fn no_shell_executes_variables_of_the_environment() {
    let scratch = Scratch::new();
    let agent = Agent::new(&scratch, "agent");
    fs::write(scratch.path.join("startup"), "touch \"$REPORT/startup\"\nset -n\n").unwrap();
    // `sleep`, too: nothing here waits for a time.
    for name in ["sleep", "timeout", "flock"] {
        let script = format!("#!/bin/sh\ntouch \"$REPORT/{name}\"\n");
        executable(&scratch.path.join("bin").join(name), &script);
    }
    let path = format!("{}:{}", scratch.path.join("bin").display(), std::env::var("PATH").unwrap());
    let mut command = agent.plainly(&scratch);
    command
        .env("BASH_ENV", scratch.path.join("startup"))
        .env("BASH_FUNC_setsid%%", "() { touch \"$REPORT/function\"; }")
        .env("SHELLOPTS", "noexec:xtrace")
        .env("PATH", path);
    run(&mut command).code(0).silent();
    agent.read("words");
    for name in ["startup", "function", "sleep", "timeout", "flock"] {
        assert!(!agent.report.join(name).exists(), "{name}");
    }
}

#[test]
fn the_agent_has_the_callers_umask_and_directory() {
    let scratch = Scratch::new();
    let agent = Agent::new(&scratch, "agent");
    let script = "umask 0027; nbs-launch-agent a-0 . ./agent Go.";
    run(scratch.command("bash").args(["-c", script]).env("REPORT", &agent.report)).code(0).silent();
    assert_eq!(agent.text("umask"), "0027\n");
    assert!(agent.environment().contains(&os(&[b"PWD=", scratch.path.as_os_str().as_bytes()].concat())));
}

#[test]
fn the_caller_gets_its_pipes_back_at_once() {
    let scratch = Scratch::new();
    let agent = Agent::new(&scratch, "agent");
    // The agent stays until we let it go, after this has returned.
    run(&mut agent.plainly(&scratch)).code(0).stdout("");
    assert!(is_running(agent.text("pid").trim()));
}

#[test]
fn an_agent_is_looked_for_as_any_program_is() {
    let scratch = Scratch::new();
    let agent = Agent::new(&scratch, "bin/my-agent");
    let path = format!("{}:{}", scratch.path.join("bin").display(), std::env::var("PATH").unwrap());
    let mut command = scratch.applet("nbs-launch-agent");
    command.args(["a-0", "/", "my-agent", "Go."]).env("PATH", path).env("REPORT", &agent.report);
    run(&mut command).code(0).silent();
    assert_eq!(agent.words()[0], agent.path);
}

#[test]
fn an_agent_that_cannot_start_is_an_error() {
    let scratch = Scratch::new();
    let launch = |arguments: &[&str]| {
        let mut command = scratch.applet("nbs-launch-agent");
        command.args(arguments);
        command
    };
    run(&mut launch(&["a-0", "/", "./nothing", "Go."])).code(1).complains("'./nothing': there is no such");
    run(&mut launch(&["a-0", "/", "nbs-nothing", "Go."])).code(1).complains("there is no such program");
    run(&mut launch(&["a-0", "/", "/etc/passwd", "Go."])).code(1).complains("it is not executable");
    run(&mut launch(&["a-0", "/", "/", "Go."])).code(1).complains("it is not executable");
    run(launch(&["a-0", "/", "/bin/true", "Go."]).env("PATH", "/nowhere"))
        .code(1)
        .complains("neither 'bash' nor 'sh' is on PATH");
    let long = "x".repeat(128 * 1024 - 1);
    run(&mut launch(&["a-0", "/", "/bin/true", &long])).code(1).complains("the prompt has 131071 bytes");
    for arguments in [&[][..], &["a"], &["a", "b", "c"], &["a", "b", "c", "d", "e"]] {
        run(&mut launch(arguments)).code(4).complains("operands, needs 4; usage: ");
    }
    run(&mut launch(&["--frobnicate", "a", "b", "c", "d"])).code(4).complains("--frobnicate");
}
