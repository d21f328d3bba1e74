use std::{fs, process::Stdio};

use crate::support::{Scratch, eventually, run};

const SECRET: &str = "correct horse \u{e9} battery";

/// Asks, and prints a checksum of the answer, which does not show it.
const ASKS: &str = "read -rsp 'Password: ' x; echo; printf %s \"$x\" | cksum; printf 'length %s\\n' ${#x}; \
                    printf '%s' \"$x\" > got; sleep 1000";

fn got(scratch: &Scratch, expected: &str) {
    eventually("the secret", || {
        fs::read_to_string(scratch.path.join("got")).is_ok_and(|got| got == expected)
    });
}

#[test]
fn a_secret_goes_into_a_secret_prompt_and_nowhere_else() {
    let (scratch, handle) =
        Scratch::with_session(&format!("echo ready; while ! [ -e go ]; do sleep 0.05; done; {ASKS}"));
    scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
    let input = format!("{SECRET}\n");
    let early =
        scratch.ts_with_input(&["send", "--secret-stdin", "--timeout=0.3", &handle], input.as_bytes());
    let early = early.code(3).stdout("").complains("was at no secret prompt after 0.3 s");
    assert!(!String::from_utf8_lossy(&early.stderr).contains("horse"));
    fs::write(scratch.path.join("go"), "").unwrap();
    let ran = scratch
        .ts_with_input(&["send", "--json", "--secret-stdin", &handle], input.as_bytes())
        .code(0)
        .silent();
    assert_eq!(ran.out(), format!("{{\"handle\":\"{handle}\",\"secret\":true}}\n"));
    got(&scratch, SECRET);
    let output = scratch.ts(&["read", &handle]).out();
    assert!(!output.contains("horse"), "{output}");
    // The relay has forgotten it, and so has every file.
    for name in fs::read_dir(scratch.folder(&handle)).unwrap() {
        let path = name.unwrap().path();
        if path.is_file() {
            assert!(!String::from_utf8_lossy(&fs::read(&path).unwrap()).contains("horse"), "{path:?}");
        }
    }
    // On the stack of a build without optimisation, a part may stay until that is used again.
    let relay = scratch.file(&handle, "daemon_pid");
    eventually("it being forgotten", || {
        scratch.ts(&["status", "--json", &handle]).code(0);
        !memory(&relay).windows(5).any(|bytes| bytes == b"horse")
    });
}

#[test]
fn a_secret_that_comes_in_pieces_leaves_none_of_them() {
    use std::{io::Read, io::Write, os::unix::net::UnixStream};
    let (scratch, handle) = Scratch::with_session(&format!("stty -echo; {ASKS}"));
    scratch.ts(&["wait-pattern", &handle, "Password"]).code(0);
    let long = (0..300).map(|n| format!("horse{n}-")).collect::<String>();
    let connect = || UnixStream::connect(scratch.folder(&handle).join("relay.sock")).unwrap();
    let memory = || memory(&scratch.file(&handle, "daemon_pid"));
    let has = |memory: &[u8]| memory.windows(5).any(|bytes| bytes == b"horse");
    // Two in turns, so that neither can grow in place.
    let (relay, half) = (connect(), connect());
    for mut stream in [&relay, &half] {
        stream.write_all(format!("secret {}\n", long.len() + 1).as_bytes()).unwrap();
    }
    for piece in long.as_bytes().chunks(40) {
        for mut stream in [&relay, &half] {
            stream.write_all(piece).unwrap();
            // Earlier writes have been read when this is answered.
            scratch.ts(&["status", "--json", &handle]).code(0);
        }
    }
    assert!(has(&memory()));
    // One says more than that; the other hangs up before the end.
    drop(half);
    (&relay).write_all(b"\rsecret 9\nhorse").unwrap();
    let mut answer = [0; 6];
    (&relay).read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"typed ");
    got(&scratch, &long);
    drop(relay);
    eventually("it being forgotten", || {
        scratch.ts(&["status", "--json", &handle]).code(0);
        !has(&memory())
    });
}

/// All memory of a process that it may write to.
fn memory(pid: &str) -> Vec<u8> {
    use std::os::unix::fs::FileExt;
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let memory = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let mut all = Vec::new();
    for line in maps.lines().filter(|line| line.contains(" rw") && !line.contains("[v")) {
        let (from, to) = line.split_whitespace().next().unwrap().split_once('-').unwrap();
        let (from, to) = (u64::from_str_radix(from, 16).unwrap(), u64::from_str_radix(to, 16).unwrap());
        let mut bytes = vec![0; (to - from) as usize];
        let count = memory.read_at(&mut bytes, from).unwrap_or(0);
        all.extend_from_slice(&bytes[..count]);
    }
    assert!(all.len() > 4_096);
    all
}

#[test]
fn a_secret_waits_for_its_prompt() {
    let scratch = Scratch::new();
    // Nothing is printed when the echo goes off.
    let silent = "echo ready; while ! [ -e go ]; do sleep 0.05; done; stty -echo; read -r x; \
                  stty echo; printf %s \"$x\" > got; read -r y";
    let handle = scratch.create(silent);
    scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
    fs::write(scratch.path.join("input"), SECRET).unwrap();
    let mut call = scratch.command("nbs-ts");
    call.args(["send", "--secret-stdin", "--timeout=30", &handle]);
    call.stdin(fs::File::open(scratch.path.join("input")).unwrap());
    let waiting = crate::support::start(&mut call);
    fs::write(scratch.path.join("go"), "").unwrap();
    waiting.finish().code(0).stdout("").silent();
    got(&scratch, SECRET);
    // And if there is no session any more to wait for, it ends.
    let mut call = scratch.command("nbs-ts");
    call.args(["send", "--secret-stdin", "--timeout=30", &handle]);
    call.stdin(fs::File::open(scratch.path.join("input")).unwrap());
    let waiting = crate::support::start(&mut call);
    scratch.ts(&["send", &handle, "end"]).code(0);
    waiting.finish().code(1).complains("has ended with exit code 0");
}

#[test]
fn a_line_typed_ahead_is_read_before_the_secret() {
    let scratch = Scratch::new();
    let command = "stty -echo; echo ready; while ! [ -e go ]; do sleep 0.05; done; \
                   read -r x; read -r y; stty echo; printf '%s %s' \"$x\" \"${#y}\" > got; sleep 1000";
    let handle = scratch.create(command);
    scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
    scratch.ts(&["send", &handle, "ahead"]).code(0);
    let early = scratch.ts_with_input(&["send", "--secret-stdin", "--timeout=0.2", &handle], b"abc");
    early.code(3).complains("the terminal's state is running");
    fs::write(scratch.path.join("go"), "").unwrap();
    scratch.ts_with_input(&["send", "--secret-stdin", &handle], b"abc").code(0);
    got(&scratch, "ahead 3");
}

#[test]
fn a_secret_comes_from_any_descriptor_from_where_it_stands() {
    let (scratch, handle) = Scratch::with_session("while read -rs x; do printf '<%s>' \"${#x}\"; done");
    let script = format!(
        "printf 'first\\nabc\\n' > file
         exec 5< file; read -ru 5 line; [ $line = first ] || exit 9
         nbs-ts send --secret-fd=5 {handle} || exit
         nbs-ts send --secret-fd 7 {handle} 7< <(printf abcdefg) || exit
         nbs-ts send --secret-fd=8 {handle} 8<<< abcde || exit
         nbs-ts send --secret-fd=0 {handle} <<< ''"
    );
    scratch.bash(&script).code(0).stdout("").silent();
    scratch.ts(&["wait-pattern", &handle, "<3><7><5><0>"]).code(0);
    scratch.ts(&["send", "--secret-fd=77", &handle]).code(1).complains("from descriptor 77");
    scratch.ts_with_input(&["send", "--secret-stdin", &handle], b"").code(1).complains("it is empty");
    let long = "x".repeat(5_000);
    scratch
        .ts_with_input(&["send", "--secret-stdin", &handle], long.as_bytes())
        .code(1)
        .complains("4095 bytes");
    scratch
        .ts_with_input(&["send", "--secret-stdin", &handle], b"a\nb\n")
        .code(1)
        .complains("more than one line");
    scratch
        .ts_with_input(&["send", "--secret-stdin", &handle], b"a\x03b")
        .code(1)
        .complains("a control character");
    let longest = "x".repeat(4_095);
    scratch.ts_with_input(&["send", "--secret-stdin", &handle], longest.as_bytes()).code(0);
    scratch.ts(&["wait-pattern", &handle, "<4095>"]).code(0);
}

#[test]
fn a_secret_goes_with_nothing_else() {
    let (scratch, handle) = Scratch::with_session("cat");
    let cases: [&[&str]; 8] = [
        &["--secret-stdin", &handle, "text"],
        &["--secret-stdin", "--stdin", &handle],
        &["--secret-stdin", "--secret-fd=0", &handle],
        &["--secret-stdin", "--no-enter", &handle],
        &["--secret-stdin", "--paste", &handle],
        &["--secret-fd=-1", &handle],
        &["--secret-fd=x", &handle],
        &["--secret-fd=", &handle],
    ];
    for arguments in cases {
        let mut call = scratch.command("nbs-ts");
        run(call.arg("send").args(arguments).stdin(Stdio::null())).code(4).stdout("");
    }
    scratch.ts_with_input(&["send", "--secret-stdin", "00000000"], b"x").code(2);
    let dead = scratch.create("exit 0");
    scratch.wait_for_end(&dead);
    scratch.ts_with_input(&["send", "--secret-stdin", &dead], b"x").code(1).complains("has ended");
}

/// At the other end of a connection the echo is off, and nothing shows that here.
#[test]
fn a_secret_for_somebody_elsewhere_is_typed_at_the_question_that_is_named() {
    let scratch = Scratch::new();
    fs::write(scratch.path.join("asks.sh"), ASKS).unwrap();
    let handle = scratch.create("script -q -c 'bash asks.sh' /dev/null");
    scratch.ts(&["wait", &handle, "--pattern=Password"]).code(0);
    let send_to = |handle: &str, options: &[&str]| {
        let words = [&["send", "--secret-stdin", "--timeout=0.5"], options, &[handle]].concat();
        scratch.ts_with_input(&words, format!("{SECRET}\n").as_bytes())
    };
    let send = |options: &[&str]| send_to(&handle, options);
    send(&[]).code(3).complains("was at no secret prompt");
    send(&["--prompt=^Passphrase"]).code(3).complains("was at no secret prompt");
    send(&["--prompt=^Password: *$"]).code(0).silent();
    got(&scratch, SECRET);
    assert!(!scratch.ts(&["read", &handle]).out().contains("horse"));
    // If the terminal itself would show it, it is not typed.
    let shown = scratch.create("printf Password:; read x");
    scratch.ts(&["wait", &shown, "--input"]).code(0);
    let words = ["send", "--secret-stdin", "--timeout=0.2", "--prompt=Password", &shown];
    scratch.ts_with_input(&words, b"horse\n").code(3);
    // The blank at the end of a prompt is a part of it, for a pattern that names it.
    for prompt in ["Password: $", "Password:$"] {
        let handle = scratch.create("script -q -c 'bash asks.sh' /dev/null");
        scratch.ts(&["wait", &handle, "--pattern=Password"]).code(0);
        fs::write(scratch.path.join("got"), "").unwrap();
        send_to(&handle, &[&format!("--prompt={prompt}")]).code(0).silent();
        got(&scratch, SECRET);
    }
    scratch.ts(&["send", "--prompt=x", &shown, "text"]).code(4).complains("--prompt requires");
    scratch
        .ts_with_input(&["send", "--secret-stdin", "--prompt=(", &shown], b"x")
        .code(4)
        .complains("not a regex");
}
