//! Whatever is killed, stopped or refused, `doctor` finds no fault, and no byte is lost, doubled or out of
//! order.
//!
//! A seed selects the events, and a failure prints it: `NBS_SEED` repeats that round, `NBS_ROUNDS` asks for
//! more (from there on, if both are set). The times depend on the machine; the verdict does not depend on
//! them.

mod calls;
mod exhausted;

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs,
    io::Write,
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, symlink},
        process::ExitStatusExt,
    },
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::Path,
    process::Command,
    thread::sleep,
    time::Duration,
};

use fastrand::Rng;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::support::{
    Mount, Ran, Running, Scratch, copy_of_binary, eventually, executable, field, is_running, run, start,
    wait_for_tracer,
};

/// Runs a round for each seed, and says which one failed.
fn rounds(usual: u64, round: impl Fn(&mut Rng)) {
    let number = |name| std::env::var(name).ok().map(|value| value.parse::<u64>().unwrap());
    let seeds = match number("NBS_SEED") {
        Some(seed) => seed..seed + number("NBS_ROUNDS").unwrap_or(1),
        None => 0..number("NBS_ROUNDS").unwrap_or(usual),
    };
    for seed in seeds {
        let result = catch_unwind(AssertUnwindSafe(|| round(&mut Rng::with_seed(seed))));
        result.unwrap_or_else(|panic| {
            let _ = writeln!(std::io::stderr(), "NBS_SEED={seed}");
            resume_unwind(panic)
        });
    }
}

/// A session that prints numbered lines.
struct Printer {
    handle: String,
    lines: u32,
    /// It prints nothing else, and then exits with 7.
    once: bool,
}

const COMMANDS: [(&str, u32); 4] = [
    ("seq -f L%.0f 0 199; exit 7", 200),
    ("seq -f L%.0f 0 29999; exit 7", 30_000),
    ("for i in {0..1499}; do echo L$i; done; exit 7", 1_500),
    ("for i in {0..19}; do echo L$i; sleep 0.01; done; exit 7", 20),
];

/// The calls that may come at any time; `H` is a session.
const CALLS: [&[&str]; 32] = [
    &["read-new", "H"],
    &["read-new", "H", "--reader=r", "--strip"],
    &["read-new", "H", "--max=1K"],
    &["read", "H", "--last=5"],
    &["wait-pattern", "H", "L150", "--timeout=1"],
    &["wait-complete", "H", "--timeout=1"],
    &["wait", "H", "--exit", "--timeout=1"],
    &["wait", "H", "--pattern=L99", "--idle=100ms", "--timeout=1"],
    &["wait", "H", "--stable", "--timeout=1"],
    &["status", "H", "--json"],
    &["screen", "H"],
    &["resize", "H", "100x30"],
    &["pwd", "H"],
    &["list"],
    &["events"],
    &["events", "--follow"],
    &["attach", "H"],
    &["attach", "H", "--json"],
    &["send", "--timeout=1", "H", "x"],
    &["key", "H", "C-c"],
    &["ask", "--timeout=1", "H", "echo hi"],
    &["run", "--timeout=1", "H", "seq -f L%.0f 0 99"],
    &["run", "--timeout=1", "H", "sleep 5"],
    &["ensure", "--no-helper", "--name=e", "bash"],
    &["create", "--no-helper", "--name=c", "--timeout=200ms", "seq 100; sleep 9"],
    &["create", "--name=c", "true"],
    &["kill", "--keep", "H"],
    &["kill", "--if-exists", "H"],
    &["create", "--no-helper", "--name=c", "--timeout=50ms", "trap : TERM; while :; do sleep 0.02; done"],
    &["gc", "--hours=1"],
    &["gc", "--keep=2"],
    &["doctor"],
];

struct World {
    scratch: Scratch,
    printers: Vec<Printer>,
    calls: Vec<Running>,
    stopped: Vec<u32>,
    /// The workers whose monitor was killed, or asked to end.
    unwatched: Vec<String>,
    /// Those of them whose monitor was asked to end.
    told_to_end: Vec<String>,
    /// How often each target was struck, to judge how well a run has covered them.
    struck: BTreeMap<String, u32>,
}

impl World {
    fn new() -> World {
        let scratch = Scratch::new();
        World {
            scratch,
            printers: Vec::new(),
            calls: Vec::new(),
            stopped: Vec::new(),
            unwatched: Vec::new(),
            told_to_end: Vec::new(),
            struck: BTreeMap::new(),
        }
    }

    fn start_helper(&mut self) {
        let helper = start(&mut self.scratch.applet("nbs-ts-helper"));
        eventually("the helper", || self.scratch.ts(&["doctor"]).out().contains("ok   helper"));
        self.calls.push(helper);
    }

    /// A shell, or what prints once; bounded or not; by the helper or without.
    fn create(&mut self, random: &mut Rng) {
        let helper: &[&str] = if random.bool() { &[] } else { &["--no-helper"] };
        let bound: &[&str] = if random.u8(..4) == 0 { &["--max-log=64K"] } else { &[] };
        let once = random.u8(..3) > 0;
        let (command, lines) = if once { *random.choice(&COMMANDS).unwrap() } else { ("bash", 0) };
        let ran = self.scratch.ts(&[&["create"], helper, bound, &[command]].concat());
        let handle = ran.code(0).out().trim().to_owned();
        self.printers.push(Printer { handle, lines, once });
    }

    fn call(&mut self, random: &mut Rng) {
        let handle = &random.choice(&self.printers).unwrap().handle;
        let words: Vec<&str> = random
            .choice(CALLS)
            .unwrap()
            .iter()
            .map(|word| if *word == "H" { handle } else { *word })
            .collect();
        self.calls.push(self.scratch.start(&words));
    }

    fn is_member(&self, pid: u32) -> bool {
        let mark = [b"NBS_TS_HOME=", self.scratch.state().as_os_str().as_bytes()].concat();
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == mark)
    }

    /// Signals one of our processes in this world; half the time the last call's.
    fn strike(&mut self, random: &mut Rng) {
        // Some calls take less than a millisecond, and some wait.
        let most = random.choice([300, 2_000, 10_000]).unwrap();
        sleep(Duration::from_micros(random.u64(..most)));
        let newest = self.calls.last().map(Running::pid).filter(|_| random.bool());
        let Some(pid) = newest.or_else(|| random.choice(self.ours("nbs"))) else { return };
        self.signal(pid, random);
    }

    fn strike_last(&mut self, random: &mut Rng) {
        sleep(Duration::from_micros(random.u64(..3_000)));
        self.signal(self.calls.last().unwrap().pid(), random);
    }

    /// The PIDs of our processes whose names begin so. If another process is struck, its shell may report
    /// that.
    fn ours(&self, name: &str) -> Vec<u32> {
        let all = self.scratch.processes();
        let pids = all.iter().filter_map(|line| {
            let (pid, words) = line.split_once(": ")?;
            let program = words.split(' ').next()?.rsplit('/').next()?;
            program.starts_with(name).then(|| pid.parse().unwrap())
        });
        pids.collect()
    }

    /// One of three signals.
    fn signal(&mut self, pid: u32, random: &mut Rng) {
        let signal = match random.u8(..10) {
            0 => Signal::TERM,
            1 | 2 => Signal::STOP,
            _ => Signal::KILL,
        };
        // Held before it is looked at, so that its PID is not another's by now.
        let Ok(held) = pidfd_open(Pid::from_raw(pid as i32).unwrap(), PidfdFlags::empty()) else { return };
        let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if !self.is_member(pid) || pidfd_send_signal(&held, signal).is_err() {
            return;
        }
        if signal == Signal::STOP {
            self.stopped.push(pid);
        }
        let mut words = words.split('\0');
        let name = words.next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
        let next = words.next().unwrap_or_default();
        // Asked to end, it waits for a session that is still to come, but not for ever.
        if signal != Signal::STOP && name == "nbs-monitor" {
            self.unwatched.push(next.to_owned());
            if signal == Signal::TERM {
                self.told_to_end.push(next.to_owned());
            }
        }
        let verb = if name == "nbs-ts" { next } else { "" };
        *self.struck.entry(format!("{signal:?} {name} {verb}")).or_default() += 1;
    }

    fn let_go(&mut self) {
        for pid in self.stopped.drain(..) {
            let held = pidfd_open(Pid::from_raw(pid as i32).unwrap(), PidfdFlags::empty());
            if let Ok(held) = held {
                let _ = pidfd_send_signal(&held, Signal::CONT);
            }
        }
    }

    /// All calls end, and none by a crash.
    fn finish(&mut self) {
        self.let_go();
        for call in self.calls.drain(..) {
            let pid = Pid::from_raw(call.pid() as i32).unwrap();
            // They go on for ever.
            if ["--follow", "attach", "ts-helper"].iter().any(|word| call.words().contains(word)) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
            not_crashed(&call.finish());
        }
    }

    /// The state that must hold now that nothing happens any more.
    fn check(&self) {
        for printer in &self.printers {
            let ran = self.scratch.ts(&["status", &printer.handle]);
            if ran.status.code() == Some(2) {
                continue;
            }
            if printer.once && ran.out().starts_with("alive") {
                self.scratch.ts(&["wait", &printer.handle, "--exit", "--timeout=100"]).code(0);
            }
            self.check_bytes(printer);
        }
        in_order(&self.scratch);
    }

    fn check_bytes(&self, printer: &Printer) {
        let handle = &printer.handle;
        let ran = self.scratch.ts(&["read", "--json", handle]).code(0);
        let lost: usize =
            if ran.out().contains("\"lost\":") { ran.field("lost").parse().unwrap() } else { 0 };
        let log = self.scratch.ts(&["read", handle]).code(0).stdout;
        if printer.once {
            let expected: String = (0..printer.lines).map(|line| format!("L{line}\r\n")).collect();
            // The dropped part may have echoes, too.
            let found = (lost.saturating_sub(64)..=lost).find_map(|begin| {
                let rest = expected.as_bytes().get(begin..)?;
                Some(begin + without_echoes(&log, rest)?)
            });
            let Some(found) = found else {
                panic!("{handle}: {} bytes are not those from {lost} on", log.len());
            };
            let exit_record =
                fs::read_to_string(self.scratch.folder(handle).join("exit.json")).unwrap_or_default();
            if exit_record.contains("\"exit_code\":7,") && exit_record.contains("\"drained\":true") {
                assert_eq!(found, expected.len(), "{handle}: the end is missing");
            }
        }
        // Not there before the first read-new.
        let cursor = fs::read_to_string(self.scratch.folder(handle).join("read_cursor"));
        let before = cursor.map_or(0, |cursor| cursor.trim().parse::<usize>().unwrap());
        let rest = self.scratch.ts(&["read-new", handle]).code(0).stdout;
        let whole = self.scratch.ts(&["read", handle, &format!("--offset={before}")]).code(0).stdout;
        assert!(whole.starts_with(&rest), "{handle}: read-new from {before}");
        if printer.once {
            assert!(whole == rest, "{handle}: read-new from {before}");
        }
    }
}

/// The length of the expected output that a log has, in order, and nothing else but the echo of our calls'
/// input: wherever that comes, even within a line.
fn without_echoes(log: &[u8], expected: &[u8]) -> Option<usize> {
    let mut found = 0;
    for byte in log {
        match expected.get(found) {
            Some(next) if next == byte => found += 1,
            _ if b"x^Cecho hi\r\n".contains(byte) => {}
            _ => return None,
        }
    }
    Some(found)
}

fn not_crashed(ran: &Ran) {
    let fine = match (ran.status.code(), ran.status.signal()) {
        (Some(code), _) => code != 101,
        (_, Some(signal)) => [2, 9, 13, 15].contains(&signal),
        _ => false,
    };
    assert!(fine && !ran.err().contains("internal error at"), "{ran:?}");
}

/// Waits until all is in order; on a slow machine, processes may still be ending.
fn in_order(scratch: &Scratch) {
    eventually("all being in order", || {
        let ran = scratch.ts(&["doctor"]);
        let told = ran.out();
        let mut bad = told.lines().filter(|line| line.starts_with("bad")).peekable();
        if bad.peek().is_some() && bad.all(|line| line.contains(" is left over from session ")) {
            return false;
        }
        ran.code(0).stdout_has("all in order");
        true
    });
}

/// Ends all, and sees that nothing at all is left.
fn cleared(scratch: &Scratch) {
    scratch.ts(&["kill", "--all"]).code(0);
    // A relay whose `create` was killed has its session until it has seen that.
    eventually("nothing being left in sessions/", || {
        scratch.ts(&["gc"]).code(0);
        fs::read_dir(scratch.state().join("sessions")).unwrap().count() == 0
    });
    in_order(scratch);
    eventually("no process being left", || scratch.processes().is_empty());
}

/// How often each target was struck, in all rounds of a test.
#[derive(Default)]
struct Struck(RefCell<BTreeMap<String, u32>>);

impl Struck {
    fn add(&self, world: &World) {
        for (what, count) in &world.struck {
            *self.0.borrow_mut().entry(what.clone()).or_insert(0) += count;
        }
    }
}

impl Drop for Struck {
    fn drop(&mut self) {
        let _ = writeln!(std::io::stderr(), "struck: {:#?}", self.0.borrow());
    }
}

#[test]
fn whoever_is_killed_or_stopped_at_random_nothing_is_lost() {
    let struck = Struck::default();
    rounds(8, |random| {
        let mut world = World::new();
        if random.bool() {
            world.start_helper();
        }
        for _ in 0..random.usize(1..4) {
            world.create(random);
        }
        for _ in 0..random.usize(5..25) {
            world.call(random);
            if random.bool() {
                world.strike(random);
            }
        }
        world.finish();
        world.check();
        cleared(&world.scratch);
        struck.add(&world);
    });
}

#[test]
fn whoever_ends_what_has_reached_a_limit_may_be_struck_and_all_of_it_ends() {
    const STAYS: &str = "trap : TERM; (trap '' TERM; exec setsid sleep 1000) & setsid sleep 1001 & \
                         while :; do sleep 0.02; done";
    let struck = Struck::default();
    rounds(3, |random| {
        let mut world = World::new();
        if random.bool() {
            world.start_helper();
        }
        let limit = random.choice(["--timeout=300ms", "--idle-timeout=200ms"]).unwrap();
        let create = |_| world.scratch.ts(&["create", limit, STAYS]).code(0).out().trim().to_owned();
        let handles: Vec<String> = (0..random.usize(1..4)).map(create).collect();
        let is_alive = |world: &World| world.scratch.ts(&["list"]).out().contains("\talive\t");
        for strikes in 0.. {
            // Not for ever: a stopped monitor ends nothing.
            if !is_alive(&world) || strikes > 100 {
                break;
            }
            if random.u8(..30) == 0 {
                let handle = random.choice(&handles).unwrap();
                world.calls.push(world.scratch.start(&["kill", "--keep", handle]));
                world.strike_last(random);
            }
            for terminator in world.ours("nbs-terminator") {
                sleep(Duration::from_micros(random.u64(..3_000)));
                if random.bool() {
                    world.signal(terminator, random);
                }
            }
        }
        world.let_go();
        for handle in &handles {
            world.scratch.ts(&["wait", handle, "--exit", "--timeout=100"]).code(0);
        }
        in_order(&world.scratch);
        world.finish();
        cleared(&world.scratch);
        struck.add(&world);
    });
}

/// An agent that opens its session.
const AGENT: &str = "#!/bin/bash\nnbs-ts create --no-helper --name=\"nbs-$NBS_HANDLE\" \"sleep 1000\"\n";

impl World {
    /// A project, an agent and a skill.
    fn make_project(&self) {
        let path = &self.scratch.path;
        fs::create_dir_all(path.join("project/.nbs/bin")).unwrap();
        fs::write(path.join("skill.md"), "").unwrap();
        let agent = path.join("project/.nbs/bin/nbs-claude");
        executable(&agent, AGENT);
    }

    fn applet(&self, link: &str, arguments: &[&str]) -> Command {
        let mut command = self.scratch.applet(link);
        command.args(arguments);
        command
    }

    /// The workers of the project, an object each.
    fn workers(&self) -> Vec<String> {
        let ran = run(&mut self.applet("nbs-spawn-worker", &["--list", "--json", "project"])).code(0);
        ran.silent().out().lines().map(str::to_owned).collect()
    }

    fn live_session_of(&self, worker: &str) -> bool {
        let all = self.scratch.ts(&["list"]).code(0).out();
        all.lines().any(|line| line.contains("\talive\t") && line.contains(worker))
    }

    /// One of its next system calls fails, or is its last.
    fn sabotage_monitor(&mut self, monitor: u32, random: &mut Rng) -> Running {
        let at = random.u32(1..200);
        let inject = match random.u8(..4) {
            0 | 1 => format!("inject=all:signal=KILL:when={at}"),
            2 => format!("inject=openat:error=EMFILE:when={}", at % 30 + 1),
            _ => format!("inject=poll,ppoll,read,openat:error=EINTR:when={}", at % 30 + 1),
        };
        if inject.contains("KILL") {
            let words = fs::read_to_string(format!("/proc/{monitor}/cmdline")).unwrap_or_default();
            self.unwatched.extend(words.split('\0').nth(1).map(str::to_owned));
        }
        *self.struck.entry(inject.split(":when").next().unwrap().to_owned()).or_default() += 1;
        let mut strace = self.scratch.command("strace");
        strace.args(["-qq", "-o", "/dev/null", "-e", "signal=none", "-e", &inject]);
        let tracing = start(strace.args(["-p", &monitor.to_string()]));
        wait_for_tracer(&monitor.to_string());
        tracing
    }

    /// All workers are done, one way or another: those with a monitor lose their
    /// sessions by it, those without are still seen, and can be ended.
    fn end_workers(&mut self) {
        // No process can end an agent that is still to open its session.
        eventually("the agents' end", || {
            !self.scratch.processes().iter().any(|line| line.contains("nbs-claude"))
        });
        let handle_of = |worker: &str| field(worker, "handle").trim_matches('"').to_owned();
        // The monitor writes the result last.
        eventually("the end of the monitors that were told to", || {
            let mut told =
                self.workers().into_iter().filter(|line| self.told_to_end.contains(&handle_of(line)));
            told.all(|line| field(&line, "monitor") == "null")
        });
        let has_been_ended = |worker: &str| field(worker, "state") == "\"ended\"";
        let workers = self.workers();
        for worker in &workers {
            let task = field(worker, "task_file").trim_matches('"').to_owned();
            let content = fs::read_to_string(&task).unwrap();
            if has_been_ended(worker) {
                assert!(self.told_to_end.contains(&handle_of(worker)), "{worker}");
                assert!(
                    content.contains("\nCompleted: 2") && content.ends_with("\n\n## Log\n\n"),
                    "{content}"
                );
                continue;
            }
            assert!(content.ends_with("\nCompleted:\n\n## Log\n\n"), "{content}");
            fs::write(&task, content.replace("State: running", "State: done")).unwrap();
        }
        for worker in &workers {
            let handle = handle_of(worker);
            let unwatched = self.unwatched.contains(&handle);
            let arguments = ["--wait", &handle, "--root=project", "--timeout=100"];
            let waited = run(&mut self.applet("nbs-spawn-worker", &arguments));
            if has_been_ended(worker) {
                waited.code(1).stdout("ended\n")
            } else {
                waited.code(0).stdout("done\n")
            };
            let now = || self.workers().into_iter().find(|line| line.contains(&handle)).unwrap();
            eventually("the monitor's end", || field(&now(), "monitor") == "null");
            if self.live_session_of(&handle) {
                assert!(unwatched || self.came_too_late(&handle), "{worker}");
                assert_ne!(field(&now(), "session"), "null");
                self.scratch.ts(&["kill", &format!("--name={handle}")]).code(0);
            }
            assert!(!self.live_session_of(&handle), "{worker}");
        }
    }

    /// Has its monitor waited for the session as long as it had to, and gone, because the process that had to
    /// start the agent was killed?
    fn came_too_late(&self, worker: &str) -> bool {
        let logs = fs::read_dir(self.scratch.path.join("tmp")).unwrap();
        let mut logs = logs.map(|log| fs::read_to_string(log.unwrap().path()).unwrap());
        logs.any(|log| log.contains(worker) && log.contains("apparently no agent was started"))
    }

    /// No file is there of which no command knows.
    fn check_files_of_workers(&self) {
        let names = |folder: &Path| -> Vec<String> {
            let entries = fs::read_dir(folder).into_iter().flatten();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        };
        for name in names(&self.scratch.path.join("project/.nbs/workers")) {
            // While it was written, writer and monitor were killed both.
            let half = name.strip_prefix('.').and_then(|name| name.strip_suffix(".new"));
            let worker = name.strip_suffix(".md").or(name.strip_suffix(".log"));
            let known = worker.is_some_and(|name| name.starts_with("tester-"));
            assert!(
                known || half.is_some_and(|name| self.unwatched.iter().any(|each| each == name)),
                "{name}"
            );
        }
        for name in names(&self.scratch.path.join("tmp")) {
            assert!(name.starts_with("nbs-spawn-worker-monitor-"), "{name}");
        }
    }
}

#[test]
fn whoever_of_a_worker_is_struck_it_is_not_lost_sight_of() {
    let struck = Struck::default();
    rounds(4, |random| {
        let mut world = World::new();
        world.make_project();
        world.scratch.ts(&["doctor"]);
        let spawn = ["--startup=500ms", "--timeout=100", "tester", "project", "skill.md", "Test it."];
        let launch = ["tester-0123abcd", "project", "project/.nbs/bin/nbs-claude", "Test it."];
        let mut spawned = Vec::new();
        for _ in 0..random.usize(4..12) {
            let mut command = match random.u8(..6) {
                0 => world.applet("nbs-launch-agent", &launch),
                1 => world.applet("nbs-spawn-worker", &["--list", "project"]),
                _ => world.applet("nbs-spawn-worker", &spawn),
            };
            let call = start(&mut command);
            if command.get_args().any(|word| word == "skill.md") { &mut spawned } else { &mut world.calls }
                .push(call);
            if random.bool() {
                let pid = spawned.last().filter(|_| random.bool()).map(Running::pid);
                sleep(Duration::from_micros(random.u64(..8_000)));
                match pid {
                    Some(pid) => world.signal(pid, random),
                    None => world.strike(random),
                }
            }
        }
        for _ in 0..random.usize(..4) {
            if let Some(monitor) = random.choice(world.ours("nbs-monitor")) {
                world.signal(monitor, random);
            }
        }
        world.finish();
        let traced = random.choice(world.ours("nbs-monitor")).filter(|_| random.bool());
        let tracing = traced.map(|monitor| world.sabotage_monitor(monitor, random));
        // A call that printed a worker's handle has started it; one that printed none has left none.
        let spawned: Vec<Ran> = spawned.into_iter().map(Running::finish).collect();
        let workers = world.workers();
        for ran in &spawned {
            not_crashed(ran);
            let told = ran.out().trim().to_owned();
            assert!(
                workers.iter().any(|worker| !told.is_empty() && worker.contains(&told))
                    || !ran.status.success()
            );
        }
        let failed = spawned.iter().filter(|ran| ran.status.code().is_some_and(|code| code != 0)).count();
        assert!(workers.len() <= spawned.len() - failed, "{spawned:?} {workers:?}");
        world.end_workers();
        tracing.map(Running::finish);
        world.check_files_of_workers();
        in_order(&world.scratch);
        cleared(&world.scratch);
        struck.add(&world);
    });
}

#[test]
fn a_disk_that_is_full_now_and_then_loses_nothing() {
    rounds(4, |random| {
        let scratch = Scratch::new();
        fs::create_dir(scratch.state()).unwrap();
        fs::set_permissions(scratch.state(), fs::Permissions::from_mode(0o700)).unwrap();
        let mounted = Mount::tmpfs(&scratch.state(), "size=400k");
        // Neither prints before both are there: a full disk has no room for another session.
        let gate = scratch.path.join("gate");
        run(Command::new("mkfifo").arg(&gate)).code(0);
        let command = format!("stty -echo; : <'{}'; seq -f L%.0f 0 59999; exit 7", gate.display());
        let handles: Vec<String> = (0..2).map(|_| scratch.create(&command)).collect();
        let _opened = fs::File::options().read(true).write(true).open(&gate).unwrap();
        let mut size = 400;
        while size < 4_000 {
            let handle = random.choice(&handles).unwrap();
            for _ in 0..random.usize(1..6) {
                let words = random.choice(CALLS).unwrap();
                if ["--follow", "attach", "kill", "create", "ensure", "key", "gc"]
                    .iter()
                    .any(|word| words.contains(word))
                {
                    continue;
                }
                let words: Vec<&str> =
                    words.iter().map(|word| if *word == "H" { handle } else { *word }).collect();
                not_crashed(&scratch.ts(&words));
            }
            size += random.u32(100..900);
            mounted.remount(&format!("size={size}k"));
        }
        let expected: String = (0..60_000).map(|line| format!("L{line}\r\n")).collect();
        for handle in &handles {
            scratch.ts(&["wait", handle, "--exit", "--timeout=100"]).code(0);
            let log = scratch.ts(&["read", handle]).code(0).stdout;
            // A call may have come before stty.
            let found = without_echoes(&log, expected.as_bytes());
            assert_eq!(found, Some(expected.len()), "{handle}: of {} bytes", log.len());
            scratch.ts(&["exit-code", handle]).stdout("7\n");
        }
        in_order(&scratch);
        cleared(&scratch);
        drop(mounted);
    });
}
