//! Connections that are lost, and killed processes of theirs, in the middle of everything: nothing is typed
//! or printed twice, no exit code is invented, every call returns, and no process is left.
//!
//! Each round has a seed, which a failure prints: `NBS_SEED=17` repeats that round, `NBS_ROUNDS` asks for
//! more. The times of events depend on the machine.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    process::Command,
    time::{Duration, Instant},
};

use fastrand::Rng;

use crate::{
    machines::{Elsewhere, name_of},
    support::{Ran, Running, eventually, run, start},
};

/// The target of a strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Struck {
    Transport,
    Bridge,
    /// The process that the transport has started there, the one that executes calls there, and one call.
    Connection,
    Far,
    Call,
    /// All that is there, and the transport.
    Machine,
    /// The bytes on the line, in both directions.
    Line,
}

impl Struck {
    const ALL: [Struck; 7] = [
        Struck::Transport,
        Struck::Bridge,
        Struck::Connection,
        Struck::Far,
        Struck::Call,
        Struck::Machine,
        Struck::Line,
    ];

    /// Does the process that executes calls outlive it, so that each call runs to its end?
    fn is_harmless(self) -> bool {
        matches!(self, Struck::Transport | Struck::Bridge | Struck::Connection | Struck::Line)
    }

    fn pids(self, there: &Elsewhere) -> Vec<String> {
        let named = |name: &str, word: &str| {
            let is_one = |pid: &String| name_of(pid) == name && second_word(pid) == word;
            there.processes().into_iter().filter(is_one).collect()
        };
        match self {
            Struck::Transport => there.transport(),
            Struck::Bridge => there.bridges(),
            Struck::Connection => named("nbs-far", "connect"),
            Struck::Far => named("nbs-far", "serve"),
            Struck::Call => there.processes().into_iter().filter(|pid| name_of(pid) == "nbs-call").collect(),
            Struck::Machine => [there.processes(), there.transport()].concat(),
            Struck::Line => Vec::new(),
        }
    }
}

fn second_word(pid: &str) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(words.split(|byte| *byte == 0).nth(1).unwrap_or_default()).into_owned()
}

/// Spoils the line once in each direction; or kills one process, or all of them if it is the machine; or
/// stops it for a while, sometimes.
fn strike(there: &Elsewhere, struck: Struck, random: &mut Rng) -> bool {
    if struck == Struck::Line {
        for direction in ["there", "back"] {
            let how = if random.bool() { "turn" } else { "insert" };
            there.spoil_line(direction, how, random.u64(..3_000));
        }
        return true;
    }
    let mut pids = struck.pids(there);
    if struck != Struck::Machine {
        pids = random.choice(pids).into_iter().collect();
    }
    // Some may have ended by now.
    let signal = |name: &str| {
        !pids.is_empty() && run(Command::new("kill").arg(name).args(&pids)).status.code().is_some()
    };
    if struck.is_harmless() && random.u8(..4) == 0 {
        let stopped = signal("-STOP");
        pass(random.u64(..300));
        signal("-CONT");
        return stopped;
    }
    signal("-KILL")
}

fn pass(milliseconds: u64) {
    let until = Instant::now() + Duration::from_millis(milliseconds);
    eventually("a moment", || Instant::now() >= until);
}

/// A running call, and its result if nothing is lost.
struct Expected {
    call: Running,
    code: i32,
    stdout: String,
}

impl Expected {
    /// `whole`: nothing was struck that may keep it from its end. Else the connection may be lost,
    /// or the session be no more.
    fn check(self, whole: bool, context: &str) {
        let ran = self.call.finish();
        let (code, out) = (ran.status.code().unwrap(), ran.out());
        let is_whole = code == self.code && out == self.stdout;
        // Its own error message may have come, but not its exit code.
        let is_told = [1, 2, 125, 255].contains(&code) && (1..=2).contains(&ran.err().matches('\n').count());
        let is_lost = !whole && is_told && self.stdout.starts_with(&out);
        assert!(is_whole || is_lost || was_not_begun(&ran), "{context}: {}", ran.shown());
    }
}

/// The first connection of a bridge was struck: it is not known that another would be better.
fn was_not_begun(ran: &Ran) -> bool {
    ran.status.code() == Some(255) && ran.out().is_empty() && ran.err().contains(": nothing was done: ")
}

fn numbered(word: &str, count: u32) -> String {
    (1..=count).map(|number| format!("{word} {number}\n")).collect()
}

fn round(there: &Elsewhere, seed: u64, struck: &mut BTreeMap<Struck, u32>) {
    let mut random = Rng::with_seed(seed);
    let got = there.home.join("got");
    let _ = fs::remove_file(&got);
    // Remains of the last round may hold up a call or two.
    let mut created = Vec::new();
    for command in
        ["bash", "stty -echo -icanon; echo ready; exec cat >>got", "seq 1 30000", "read line; exit 9"]
    {
        created.push(there.create(command));
    }
    let [shell, reader, log, ending] = &created[..] else { panic!() };
    there.ts(&["wait", reader, "--pattern=ready"]).code(0);
    there.ts(&["wait", log, "--exit"]).code(0);

    let word = format!("seed-{seed}");
    let code = (seed % 100) as i32;
    let counted = format!("for i in {{1..100}}; do echo {word} $i; sleep 0.002; done; (exit {code})");
    let typed = numbered(&word, 3_000);
    let typed_file = there.scratch.path.join("typed");
    fs::write(&typed_file, &typed).unwrap();
    let script = format!("nbs-ts send --no-enter --timeout=60 --stdin {reader} <{}", typed_file.display());
    let call =
        |words: &[&str], code, stdout: String| Expected { call: there.scratch.start(words), code, stdout };
    let whole_log: String = (1..=30_000).map(|number| format!("{number}\r\n")).collect();
    let followed = format!("{whole_log}\r\n\x1b[2m[process exited with code 0]\x1b[0m\r\n");
    let calls = vec![
        call(&["run", shell, &counted], code, numbered(&word, 100)),
        call(&["read", log], 0, whole_log),
        call(&["attach", log], 0, followed),
        call(&["wait", reader, "--pattern=never", "--timeout=0.5"], 3, String::new()),
    ];
    let sending = start(there.scratch.command("bash").args(["-c", &script]));
    let waiting = there.scratch.start(&["wait", ending, "--exit", "--timeout=100"]);
    let once =
        there.scratch.start(&["create", "--on=box", "--no-helper", &format!("--name={word}"), "sleep 1000"]);

    let mut whole = true;
    let is_hard = random.bool();
    for _ in 0..random.u32(1..5) {
        pass(random.u64(..150));
        let choices = Struck::ALL.into_iter().filter(|choice| is_hard || choice.is_harmless());
        let choice = random.choice(choices.collect::<Vec<_>>()).unwrap();
        if strike(there, choice, &mut random) {
            // Bytes to the other machine may be spoiled, too: then the next try takes longer than a call with
            // a timeout waits, and the call reports that.
            whole &= choice.is_harmless() && choice != Struck::Line;
            *struck.entry(choice).or_default() += 1;
        }
    }
    let context = format!("seed {seed}, whole: {whole}");
    // This ends the session that is waited for; if this call was struck, too, the session is killed.
    let told = there.ts(&["send", ending, "now"]);
    if !whole || was_not_begun(&told) {
        let _ = there.ts(&["kill", "--keep", ending]);
    } else {
        told.code(0);
    }
    let (waited, out) = (waiting.finish(), format!("{ending}\texit\t"));
    let is_end = waited.out().starts_with(&out) && waited.status.success();
    let is_lost = !whole && waited.out().is_empty() && !waited.status.success();
    assert!(is_end || is_lost || was_not_begun(&waited), "{context}: {}", waited.shown());
    for expected in calls {
        expected.check(whole, &context);
    }
    let content = || fs::read_to_string(&got).unwrap_or_default();
    let sent = sending.finish();
    if whole && !was_not_begun(&sent) {
        sent.code(0).silent();
        eventually(&context, || content().len() >= typed.len());
    }
    assert!(typed.starts_with(&content()), "{context}: typed {:?}", content());
    let ran = once.finish();
    let listed = there.ts(&["list", "--on=box"]).code(0).out();
    let named = listed.lines().filter(|line| line.split('\t').nth(2) == Some(&word)).count();
    let is_there = match ran.status.code() {
        _ if was_not_begun(&ran) => named == 0,
        Some(0) if whole => named == 1,
        Some(0) => named <= 1,
        _ => !whole && named <= 1,
    };
    assert!(is_there, "{context}: {} {listed}", ran.shown());
    there.mend_line();
    there.ts(&["kill", "--all", "--on=box"]).code(0);
    there.ts(&["gc", "--on=box"]).code(0);
}

#[test]
fn nothing_is_lost_or_done_twice_whoever_is_killed() {
    let there = Elsewhere::unadded();
    there.add_line();
    let number = |name: &str| std::env::var(name).ok().map(|digits| digits.parse::<u64>().unwrap());
    let seeds = match (number("NBS_SEED"), number("NBS_ROUNDS")) {
        (Some(seed), rounds) => seed..seed + rounds.unwrap_or(1),
        (None, rounds) => 0..rounds.unwrap_or(6),
    };
    let mut struck = BTreeMap::new();
    for seed in seeds {
        round(&there, seed, &mut struck);
    }
    // For a look at how well a run has covered.
    let _ = writeln!(std::io::stderr(), "struck: {struck:?}");
}
