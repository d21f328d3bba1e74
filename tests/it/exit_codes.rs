use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::Value;

use crate::support::{Scratch, run};

/// A handle that no session has.
const NOBODY: &str = "00000000";

#[test]
fn bad_arguments_are_4_and_one_line() {
    let (scratch, handle) = Scratch::with_session("exit 0");
    let handle = handle.as_str();
    let cases: &[&[&str]] = &[
        &[],
        &["frobnicate"],
        &["--frobnicate"],
        &["\u{1b}[31mred"],
        &["create"],
        &["create", ""],
        &["create", "--name=", "true"],
        &["create", "--name=-", "true"],
        &["create", "--name=a b", "true"],
        &["create", "--name=a/b", "true"],
        &["create", "--name=é", "true"],
        &["create", "--name=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "true"],
        &["create", "--name"],
        &["create", "--frobnicate", "true"],
        &["create", "--size=80", "true"],
        &["create", "--size=0x24", "true"],
        &["create", "--size=-1x24", "true"],
        &["create", "--size=99999x24", "true"],
        &["create", "--env=", "true"],
        &["create", "--env=A", "true"],
        &["create", "--env==b", "true"],
        &["create", "--pager=yes", "true"],
        &["status"],
        &["status", "xyz"],
        &["status", "0000000"],
        &["status", "000000000"],
        &["status", "0000000G"],
        &["status", "ABCDEF01"],
        &["status", "../../etc"],
        &["status", "@"],
        &["status", "@-"],
        &["status", "@a b"],
        &["status", ""],
        &["status", "a\nb"],
        &["status", handle, handle],
        &["status", handle, "--frobnicate"],
        &["exit-code"],
        &["exit-code", handle, "x"],
        &["send"],
        &["send", "xyz", "text"],
        &["send", "--timeout=-1", handle, "x"],
        &["send", "--timeout=", handle, "x"],
        &["send", "--timeout=1x", handle, "x"],
        &["send", "--stdin", handle, "text"],
        &["read"],
        &["read", handle, "--offset=1", "--last=1"],
        &["read", handle, "--offset=-1"],
        &["read", handle, "--offset="],
        &["read", handle, "--offset=1.5"],
        &["read", handle, "--offset=99999999999999999999"],
        &["read", handle, "--last=x"],
        &["read", handle, "--limit=1Q"],
        &["read", handle, "surplus"],
        &["read-new"],
        &["read-new", handle, "--reader=a/b"],
        &["read-new", handle, "--reader="],
        &["wait-complete"],
        &["wait-complete", handle, "--timeout=nan"],
        &["wait-complete", handle, "--timeout=1e999"],
        &["wait-pattern", handle],
        &["wait-pattern", handle, "a", "b"],
        &["wait-pattern", handle, "a", "--new", "--offset=1"],
        &["kill"],
        &["kill", "xyz"],
        &["kill", handle, "--grace=-1"],
        &["kill", handle, "--grace"],
        &["kill", handle, "--all"],
        &["kill", "--name=x", handle],
        &["list", "surplus"],
        &["list", "--name"],
        &["find"],
        &["find", "a", "b"],
        &["find", "a b"],
        &["find", "-"],
        &["attach"],
        &["attach", handle, "--last=1", "--new"],
        &["gc", "--hours=-1"],
        &["gc", "--hours="],
        &["gc", "surplus"],
        &["help", "frobnicate"],
        &["help", "send", "read"],
    ];
    for arguments in cases {
        let ran = scratch.ts(arguments).code(4).stdout("").complains("nbs-ts: ");
        assert!(String::from_utf8_lossy(&ran.stderr).len() < 400, "{ran:?}");
    }
    assert_eq!(scratch.ts(&["list"]).out().lines().count(), 1, "nothing was tried");
}

/// The commands that take a session and need more words, and their code if there is no such session. All others
/// are tried with the session alone.
const OF_SESSIONS: [(&str, &[&str], i32); 9] = [
    ("answer", &["x"], 2),
    ("ask", &["x"], 2),
    ("key", &["Enter"], 2),
    ("report", &["idle"], 2),
    ("resize", &["80x24"], 2),
    // Its codes are the command's.
    ("run", &["true"], 125),
    ("send", &["x"], 2),
    ("wait", &["--exit"], 2),
    ("wait-pattern", &["x"], 2),
];

#[test]
fn an_error_names_what_was_probably_meant() {
    let scratch = Scratch::new();
    scratch.ts(&["create", "--name=work", "sleep 1000"]).code(0);
    scratch.ts(&["status", "work"]).code(4).complains("did you mean '@work'?");
    let unknown = scratch.ts(&["status", "play"]).code(4);
    assert!(!unknown.err().contains("did you mean"), "{unknown:?}");
    for (theirs, ours) in [("ls", "list"), ("ps", "list"), ("logs", "read"), ("stop", "kill")] {
        scratch.ts(&[theirs]).code(4).complains(&format!("try 'nbs-ts {ours}'"));
    }
    for words in [&["create", "bash", "--name=x"][..], &["ensure", "--name=y", "bash", "-l", "--cwd=/"]] {
        scratch.ts(words).code(4).complains("nbs-ts options go before it");
    }
    // The options of a script are its own.
    scratch.ts(&["create", "bash", "script", "--name=x"]).code(0);
    scratch.ts(&["create", "bash", "--norc"]).code(0);
    let cat = scratch.create("cat");
    for verb in ["send", "ask"] {
        scratch.ts(&[verb, &cat, "--json", "pwd"]).code(0).complains("'--json' is typed as text");
    }
}

#[test]
fn every_command_that_takes_a_session_says_when_there_is_none() {
    let scratch = Scratch::new();
    let list = "OF_SESSIONS in tests/it/exit_codes.rs";
    let listed = OF_SESSIONS.iter().map(|(verb, ..)| *verb);
    let others = scratch.without_case(listed.chain(["create", "ensure"]), list);
    scratch.create("true");
    for (verb, words, code) in OF_SESSIONS.into_iter().chain(others.iter().map(|verb| (&**verb, &[][..], 2)))
    {
        let call = |session: &[&str]| scratch.ts(&[&[verb], session, words].concat());
        let ran = call(&[NOBODY]);
        let is_right = ran.status.code() == Some(code);
        assert!(
            is_right,
            "{ran:?}\nIf '{verb}' needs other words, or has another code, {list} has room for it"
        );
        ran.stdout("").complains(NOBODY);
        call(&["@nobody"]).code(code).stdout("").complains("nobody");
        call(&["--json", NOBODY]).code(code).stdout("").complains(&format!("\"exit\":{code}"));
        for none in ["xyz", "../../etc", "@a/b", ""] {
            call(&[none]).code(4).stdout("").complains("nbs-ts: ");
        }
        scratch.ts(&[verb]).code(4).stdout("").complains("nbs-ts: ");
        call(&["--frobnicate", NOBODY]).code(4).stdout("").complains("frobnicate");
    }
    scratch.ts(&["find", "nobody"]).code(2).complains("nobody");
}

#[test]
fn nothing_is_there_before_the_first_session() {
    let scratch = Scratch::new();
    scratch.ts(&["list"]).code(0).stdout("").silent();
    scratch.ts(&["status", NOBODY]).code(2);
    scratch.ts(&["gc"]).code(0).stdout("gc: removed 0 sessions, kept 0 alive + 0 recent dead\n");
    scratch.ts(&["kill", "--all"]).code(0).silent();
    assert!(!scratch.state().exists(), "looking makes nothing");
}

#[test]
fn a_timeout_is_3_and_carries_its_evidence() {
    let (scratch, handle) = Scratch::with_session("printf 'one\\n\\033[1mtwo\\033[0m\\n'; sleep 1000");
    scratch.ts(&["wait-pattern", &handle, "two"]).code(0);
    let ran = scratch.ts(&["wait-pattern", &handle, "three", "--timeout=0.2"]).code(3).stdout("");
    ran.complains("after 0.2 s").complains("running").complains("last line: 'two'").complains("three");
    scratch.ts(&["wait-complete", &handle, "--timeout=100ms"]).code(3).complains("after 0.1 s");
}

#[test]
fn errors_are_objects_where_json_was_asked_for() {
    let scratch = Scratch::new();
    let cases: &[(&[&str], i32, &str)] = &[
        (&["status", "--json", NOBODY], 2, "not_found"),
        (&["status", NOBODY, "--json"], 2, "not_found"),
        (&["status", "--bogus", "--json"], 4, "bad_arguments"),
        (&["--json", "status", "xyz"], 4, "bad_arguments"),
    ];
    for (arguments, code, kind) in cases {
        let ran = scratch.ts(arguments).code(*code).stdout("").complains(&format!("\"kind\":\"{kind}\""));
        ran.complains(&format!("\"exit\":{code}")).complains("{\"error\":\"");
    }
}

#[test]
fn no_home_is_a_clear_error() {
    let scratch = Scratch::new();
    let mut command = scratch.command("nbs-ts");
    run(command.env_remove("HOME").env_remove("NBS_TS_HOME").arg("list")).code(1).complains("HOME");
    let mut command = scratch.command("nbs-ts");
    run(command.env("HOME", "").env("NBS_TS_HOME", "").arg("list")).code(1).complains("HOME");
    let mut command = scratch.command("nbs-ts");
    run(command.env_remove("NBS_TS_HOME").arg("list")).code(0).stdout("");
}

#[test]
fn a_state_folder_that_others_may_write_to_is_refused() {
    let scratch = Scratch::new();
    scratch.create("true");
    for mode in [0o770, 0o707, 0o777] {
        fs::set_permissions(scratch.state(), fs::Permissions::from_mode(mode)).unwrap();
        scratch.ts(&["list"]).code(1).complains("others may write");
        scratch.ts(&["create", "true"]).code(1).complains("others may write");
    }
    fs::set_permissions(scratch.state(), fs::Permissions::from_mode(0o700)).unwrap();
    scratch.ts(&["list"]).code(0);
    let file = scratch.path.join("file");
    fs::write(&file, "").unwrap();
    let mut command = scratch.command("nbs-ts");
    run(command.env("NBS_TS_HOME", &file).arg("list")).code(1).complains("file");
}

#[test]
fn a_reader_that_has_gone_ends_us_as_sigpipe_would() {
    let (scratch, handle) = Scratch::with_session("seq 200000");
    scratch.ts(&["wait-complete", &handle]).code(0);
    let script = format!("nbs-ts read {handle} | head -n 1; echo ${{PIPESTATUS[0]}}");
    scratch.bash(&script).code(0).silent().stdout("1\r\n141\n");
    let script = "nbs-ts help > /dev/full";
    scratch.bash(script).code(1).complains("cannot write to standard output");
}

/// The facts that an error states, for programs, too.
#[test]
fn the_evidence_of_an_error_is_in_the_fields_of_its_object() {
    let (scratch, handle) =
        Scratch::with_session("sh -c 'echo begun; printf \"go on? \"; read x; exec sleep 100'");
    let tell = |words: &[&str], code: i32| -> Value {
        let ran = scratch.ts(words).code(code);
        serde_json::from_str(&ran.err()).unwrap_or_else(|_| panic!("{ran:?}"))
    };
    let asks = tell(&["wait", "--json", "--timeout=1", "--pattern=never", &handle], 3);
    assert_eq!((asks["kind"].as_str(), asks["exit"].as_i64()), (Some("timeout"), Some(3)), "{asks}");
    let text = |object: &Value, name: &str| object[name].as_str().unwrap_or("-").to_owned();
    assert_eq!(["terminal", "foreground"].map(|name| text(&asks, name)), ["line", "sh"], "{asks}");
    assert_eq!(["last_line", "question"].map(|name| text(&asks, name)), ["go on?", "go on?"], "{asks}");
    assert!(asks["elapsed_ms"].as_u64().is_some_and(|elapsed| elapsed >= 1000), "{asks}");
    scratch.ts(&["send", &handle, "yes"]).code(0);
    let sleeps = tell(&["wait-pattern", "--json", "--timeout=0.5", &handle, "never"], 3);
    assert_eq!(["terminal", "foreground"].map(|name| text(&sleeps, name)), ["running", "sleep"], "{sleeps}");
    assert!(sleeps["question"].is_null(), "{sleeps}");

    let limited = scratch.ts(&["create", "--timeout=1", "cat"]).code(0).out();
    let limited = limited.trim_end().to_owned();
    let ended = tell(&["wait", "--json", "--pattern=never", &limited], 1);
    assert_eq!(["ended_by", "signal"].map(|name| text(&ended, name)), ["timeout", "SIGTERM"], "{ended}");
    assert_eq!(ended["timed_out"].as_bool(), Some(true), "{ended}");

    let shell = scratch.create("bash");
    let late = tell(&["run", "--json", "--timeout=0.5", &shell, "echo some; sleep 100"], 124);
    assert_eq!(
        (text(&late, "foreground"), text(&late, "last_line")),
        ("sleep".into(), "some".into()),
        "{late}"
    );
    let asked = tell(&["run", "--json", &shell, "read -p 'name: ' x"], 123);
    assert_eq!(text(&asked, "question"), "name:", "{asked}");
}
