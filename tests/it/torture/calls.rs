//! System calls that fail, or are the last of their process.

use super::*;

/// The errors of system calls that we make.
const FAULTS: [(&str, &str); 15] = [
    ("openat", "EMFILE"),
    ("openat", "ENOSPC"),
    ("openat", "EACCES"),
    ("openat2", "EMFILE"),
    ("openat2", "ENOSYS"),
    ("write", "ENOSPC"),
    ("write", "EINTR"),
    ("write", "EIO"),
    ("read", "EINTR"),
    ("flock", "EINTR"),
    ("flock", "ENOLCK"),
    ("renameat,renameat2", "EROFS"),
    ("connect", "EAGAIN"),
    ("poll,ppoll", "EINTR"),
    ("mmap", "ENOMEM"),
];

/// `strace` before a call that has one of its system calls fail, or that ends it there.
fn sabotage(scratch: &Scratch, random: &mut Rng) -> Command {
    let mut command = scratch.command("strace");
    let most = random.choice([10, 40, 150]).unwrap();
    let at = random.u32(1..=most);
    let inject = match random.u8(..3) {
        0 => {
            let (call, error) = random.choice(FAULTS).unwrap();
            let at = at % 12 + 1;
            format!("inject={call}:error={error}:when={at}")
        }
        _ => format!("inject=all:signal=KILL:when={at}"),
    };
    command.args(["-qq", "-o", "/dev/null", "-e", "signal=none", "-e", &inject]);
    command
}

#[test]
fn whichever_system_call_of_a_call_is_its_last_or_fails_nothing_is_lost() {
    let struck = Struck::default();
    rounds(6, |random| {
        let mut world = World::new();
        for _ in 0..2 {
            world.create(random);
        }
        for _ in 0..12 {
            let mut command = sabotage(&world.scratch, random);
            let handle = random.choice(&world.printers).unwrap().handle.clone();
            let words = random.choice(CALLS).unwrap();
            if words.contains(&"--follow") || words.contains(&"attach") {
                continue;
            }
            command.arg("nbs-ts").args(words.iter().map(|word| if *word == "H" { &*handle } else { word }));
            let ran = run(&mut command);
            let how = if format!("{command:?}").contains("signal=KILL") { "killed" } else { "fails" };
            *world.struck.entry(format!("a call's system call: {how}")).or_default() += 1;
            let memory = format!("{command:?}").contains("ENOMEM");
            if !memory {
                not_crashed(&ran);
            }
        }
        world.check();
        cleared(&world.scratch);
        struck.add(&world);
    });
}

#[test]
fn whichever_system_call_of_a_relay_fails_or_is_its_last_nothing_is_lost() {
    let struck = Struck::default();
    rounds(4, |random| {
        let mut world = World::new();
        let lines = 30_000;
        let command = format!("read x; seq -f L%.0f 0 {}; exit 7", lines - 1);
        let handle = world.scratch.create_with(&[], &format!("stty -echo; echo L; {command}"));
        world.scratch.ts(&["wait-pattern", &handle, "L"]).code(0);
        let relay = world.scratch.file(&handle, "daemon_pid");
        let at = random.u32(1..60);
        let inject = match random.u8(..4) {
            0 => format!("inject=all:signal=KILL:when={at}"),
            1 => format!("inject=write:error=ENOSPC:when={at}..{}", at + random.u32(0..4)),
            2 => format!("inject=read,write:error=EINTR:when={at}+{}", random.u32(2..9)),
            _ => format!("inject=poll,ppoll:error=EINTR:when={at}+{}", random.u32(2..9)),
        };
        *world.struck.entry(format!("a relay's: {}", inject.split(":when").next().unwrap())).or_default() +=
            1;
        let mut strace = world.scratch.command("strace");
        strace.args(["-qq", "-f", "-o", "/dev/null", "-e", "signal=none", "-e", &inject, "-p", &relay]);
        let tracing = start(&mut strace);
        wait_for_tracer(&relay);
        // A terminal and a socket are never full as a disk is: if such a write was the one that failed, the
        // call is repeated.
        for _ in 0..3 {
            if world.scratch.ts(&["send", "--timeout=2", &handle, "go"]).status.success() {
                break;
            }
        }
        world.scratch.ts(&["wait", &handle, "--exit", "--timeout=100"]).code(0);
        not_crashed(&tracing.finish());
        let log = world.scratch.ts(&["read", &handle]).code(0).stdout;
        let all: String = (0..lines).map(|line| format!("L{line}\r\n")).collect();
        let all = format!("L\r\n{all}");
        assert!(all.as_bytes().starts_with(&log), "{inject}: {} bytes", log.len());
        if !inject.contains("KILL") {
            assert_eq!(log.len(), all.len(), "{inject}");
            world.scratch.ts(&["exit-code", &handle]).stdout("7\n");
        }
        world.printers.clear();
        world.check();
        cleared(&world.scratch);
        struck.add(&world);
    });
}
