//! Calls for sessions on other machines.
//!
//! Before a verb runs, this checks whether its words name another machine: in a `MACHINE:HANDLE` for a
//! SESSION of the usage, by `--on`, or by NBS_TS_ON. Such a call is made there (also one of
//! `nbs-spawn-worker`, by `--on` or `--wait=MACHINE:WORKER`), without the machine's name in its words;
//! the name is added to its output. If several machines are named, or this one as well, each has a
//! call of its own, in parallel.
//!
//! A far side is trusted only about its own sessions. None of its control characters reaches the
//! terminal, except in the output of a session.

mod printer;

use std::{
    ffi::{OsStr, OsString},
    io::{self, Write},
    os::unix::ffi::{OsStrExt, OsStringExt},
    time::Duration,
};

use crate::{
    call::CommandLine,
    cli,
    json::Value,
    machine::{
        WORKER,
        call::{self as calls, Came, End, RemoteCall},
        call_process::{CallProcess, default_on},
        name::{self, MachineName},
    },
    outcome::{Failure, Reason, Result, Trying},
    session::{ActivityView, CommandEntry, StateDir, by_time},
    sys::{
        child,
        deadline::Deadline,
        poll::PollSet,
        signals::{self, Signals},
    },
    ts::{
        attach, listing, output,
        remote::printer::{Printer, voice},
        secret,
    },
};

/// Commands that print a line for each session as it comes.
const AT_ONCE: [&str; 3] = ["wait", "kill", "events"];

/// For this long the lists of several machines are printed in the order of their names on the command
/// line. After that a slow machine delays no other.
const ORDERED: Duration = Duration::from_secs(1);

/// Commands that may miss a session on one machine, as long as another has it.
const CHOOSE: [&str; 3] = ["wait", "find", "kill"];

/// Makes the call on another machine, if it is for one.
pub(crate) fn call(verb: &'static str, call: &CommandLine) -> Option<Result<()>> {
    // These show several machines at a time, here.
    if ["top", "page", "notify"].contains(&verb) {
        return None;
    }
    match Plan::of(verb, call) {
        Ok(Some(plan)) => Some(plan.call(verb)),
        Ok(None) => None,
        Err(failure) => Some(Err(failure)),
    }
}

/// The calls to make, and where.
struct Plan {
    parts: Vec<Part>,
    json: bool,
    stdin: Option<Stdin>,
    timeout: Option<Duration>,
    any: bool,
    /// Existing sessions, none of them by its handle.
    picks: bool,
    interactive: bool,
    ansi: bool,
    /// The session's output comes without escape sequences.
    strips: bool,
    /// The lists, or the histories, are merged into one here.
    table: bool,
    /// How many commands of all are wanted.
    last: Option<u64>,
    /// Output is printed as it comes, from any machine.
    at_once: bool,
    /// It ends when its reader has gone; the others find that out when they print.
    follows: bool,
}

/// The input of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stdin {
    Ours,
    /// A secret, from this descriptor of the caller's.
    Secret(u64),
}

struct Part {
    /// `None`: this machine.
    machine: Option<MachineName>,
    words: Vec<OsString>,
}

/// The machines that the options of a call name.
struct Places {
    /// As `--on` has them.
    on: Vec<OsString>,
    /// The worker of `--wait`, as it is called there.
    worker: Option<OsString>,
    /// The session of `--inherit-cwd`, and its machine.
    inherits: Option<(Option<MachineName>, OsString)>,
}

impl Places {
    fn of(call: &CommandLine) -> Result<Places> {
        let mut on = call.values("on", cli::some)?;
        let mut worker = None;
        if let Some(value) = call.optional("wait", cli::some)? {
            let mut parts = value.as_bytes().split(|byte| *byte == b':');
            if let (Some(machine), Some(there), None) = (parts.next(), parts.next(), parts.next()) {
                on.push(OsStr::from_bytes(machine).to_owned());
                worker = Some(OsStr::from_bytes(there).to_owned());
            }
        }
        // It is the default of --on, and so of no call that names its sessions.
        let names_none = call.operands("SESSION").is_empty() && !call.has("wait");
        if on.is_empty() && names_none && call.takes("on") {
            on.extend(default_on());
        }
        // The directory of a session is on that session's machine.
        let inherits = call.optional("inherit-cwd", |_, word| on_machine(word))?;
        if let Some((Some(machine), _)) = inherits.as_ref().filter(|_| on.is_empty()) {
            on.push(machine.as_str().into());
        }
        Ok(Places { on, worker, inherits })
    }
}

impl Plan {
    /// `None`: the call is for this machine alone.
    fn of(verb: &str, call: &CommandLine) -> Result<Option<Plan>> {
        let sessions = call.operands("SESSION");
        let Places { on, worker, inherits } = Places::of(call)?;
        let placed: Vec<_> = sessions.iter().map(|session| on_machine(session)).collect::<Result<_>>()?;
        // This is so for most calls.
        if on.is_empty() && placed.iter().all(|(machine, _)| machine.is_none()) {
            return Ok(None);
        }
        let named = machines(&on)?;
        let table = match verb {
            "list" => (call.has("long") || call.has("waiting")) && !call.json(),
            "history" => named.len() > 1 && !call.has("follow"),
            _ => false,
        };
        let form = match call.takes("strip") && call.takes("rendered") {
            true => output::form_wanted(call)?,
            false => (call.has("strip"), None),
        };
        let words = |sessions: &[OsString]| {
            let mut words = call.words_for(sessions, |option, _| {
                let value = match option {
                    "secret-fd" => return Some("--secret-stdin".into()),
                    "inherit-cwd" => inherits.as_ref().map(|(_, there)| there),
                    "wait" => worker.as_ref(),
                    _ => None,
                }?;
                Some([OsStr::new("--"), option.as_ref(), OsStr::new("="), value].into_iter().collect())
            });
            let added = [
                ("--json", table && !call.json()),
                // Independent of the default there.
                ("--strip", form.0 && !call.has("strip")),
                ("--rendered", form.1.is_some() && !call.has("rendered")),
            ];
            for (option, _) in added.iter().filter(|(_, is_added)| *is_added) {
                words.insert(0, option.into());
            }
            words
        };
        let mut parts: Vec<Part> = Vec::new();
        if !on.is_empty() {
            if !sessions.is_empty() {
                return Err(Failure::bad_args("cannot use --on with SESSION".into()));
            }
            parts.extend(named.into_iter().map(|machine| Part { machine, words: words(&[]) }));
        }
        for (machine, there) in placed {
            match parts.iter_mut().find(|part| part.machine == machine) {
                // The sessions follow the options, and nothing follows them.
                Some(part) => part.words.push(there),
                None => parts.push(Part { machine, words: words(&[there]) }),
            }
        }
        if inherits.is_some_and(|(machine, _)| parts.iter().any(|part| part.machine != machine)) {
            return Err(Failure::bad_args(
                "the session of --inherit-cwd is not on the machine of --on".into(),
            ));
        }
        let starts = ["create", "ensure"].contains(&verb);
        let is_many = parts.len() > 1 || on.iter().any(|on| on == name::ALL);
        let refused = match verb {
            _ if is_many && starts => "--on must name one machine for a new session",
            WORKER if is_many && !call.has("list") => "--on must name one machine for a worker",
            _ if starts && call.has("owner") => {
                "cannot use --owner with --on: it is a process of this machine"
            }
            _ => "",
        };
        if !refused.is_empty() {
            return Err(Failure::bad_args(refused.into()));
        }
        let stdin = match call.optional("secret-fd", cli::number)? {
            Some(descriptor) => Some(Stdin::Secret(descriptor)),
            None if call.has("secret-stdin") => Some(Stdin::Secret(0)),
            None => call.has("stdin").then_some(Stdin::Ours),
        };
        let has_limit = !starts && verb != WORKER;
        let (ansi, follows) = (call.has("ansi"), call.has("follow"));
        let is_plain = verb == "ask" || form.1.is_some();
        Ok(Some(Plan {
            parts,
            json: call.json(),
            stdin,
            timeout: if has_limit { call.optional("timeout", cli::time)? } else { None },
            any: call.has("any"),
            picks: verb == "find" || call.has("all") || call.has("name"),
            interactive: call.has("interactive") || call.has("read-only"),
            ansi,
            strips: form.0 || (is_plain && !ansi),
            table,
            last: if verb == "history" { call.optional("last", cli::number)? } else { None },
            at_once: follows || AT_ONCE.contains(&verb),
            follows: follows || verb == "attach",
        }))
    }

    fn call(mut self, verb: &str) -> Result<()> {
        let (machine, words) = match &mut self.parts[..] {
            [Part { machine: Some(machine), words }] if !self.table => {
                (machine.clone(), std::mem::take(words))
            }
            _ => return self.call_all(verb),
        };
        if self.interactive {
            let words = [vec![verb.into()], words].concat();
            return attach::attach(&format!("{machine}:"), &words);
        }
        let printer = Printer::new(verb, Some(machine.clone()), &self);
        SingleCall::begin(verb, &machine, words, &self, printer)?.finish()
    }

    /// The result of several calls: the exit code of the first that failed, unless one was enough.
    fn result(&self, running: Vec<Running>) -> Result<()> {
        if self.any && running.iter().any(|running| matches!(running.ended, Some(Ok(())))) {
            return Ok(());
        }
        let none_at_all = running.iter().all(Running::has_none);
        for running in
            running.into_iter().filter(|running| none_at_all || !(self.picks && running.has_none()))
        {
            if let Some(Err(failure)) = running.ended {
                return Err(Failure::status(failure.code(), failure.kind(), None));
            }
        }
        Ok(())
    }

    /// The histories, merged.
    fn history(&self, running: &[Running]) -> String {
        let mut all = Vec::new();
        for line in running.iter().flat_map(|running| running.printer.kept.split(|byte| *byte == b'\n')) {
            let Some(entry) = CommandEntry::parse(line) else { continue };
            let told = Value::parse(line).unwrap_or_default();
            let shown = match self.json {
                true => String::from_utf8_lossy(line).into_owned() + "\n",
                false => entry.row(told["handle"].as_str()),
            };
            all.push((entry.started, shown));
        }
        by_time(all, self.last.map_or(usize::MAX, |last| last as usize))
    }

    /// Calls several machines side by side.
    fn call_all(mut self, verb: &str) -> Result<()> {
        let mut running = Vec::new();
        for part in std::mem::take(&mut self.parts) {
            let printer = Printer::new(verb, part.machine.clone(), &self);
            let begun = match &part.machine {
                Some(machine) => begin(verb, machine, part.words, self.timeout).map(|mut call| {
                    call.end_stdin();
                    Side::There(Box::new(call))
                }),
                None => CallProcess::start(verb, part.words).map(Side::Here),
            };
            let (side, ended) = match begun {
                Ok(side) => (Some(side), None),
                Err(failure) => (None, Some(Err(failure))),
            };
            running.push(Running { side, printer, ended, told: false });
        }
        let ordered = Deadline::after(ORDERED);
        loop {
            for running in &mut running {
                running.drive()?;
            }
            let mut over = running.iter().all(|running| running.ended.is_some());
            if verb == "wait" {
                over |= running.iter().any(|running| match &running.ended {
                    // The other machines can still be waited for.
                    Some(Err(failure)) if failure.code() == LOST => false,
                    Some(Err(_)) => !(self.picks && running.has_none()),
                    Some(Ok(())) => self.any,
                    None => false,
                });
            }
            let mut all_before = true;
            let none_at_all = running.iter().all(Running::has_none);
            for running in &mut running {
                all_before &= running.ended.is_some();
                let is_left_out = self.picks && running.has_none() && !none_at_all;
                let is_its_turn = all_before || (ordered.has_passed() && running.ended.is_some());
                if (self.at_once || is_its_turn) && !is_left_out {
                    running.print()?;
                }
            }
            if over {
                if self.table && running.iter().any(|running| matches!(running.ended, Some(Ok(())))) {
                    cli::print(if verb == "history" { self.history(&running) } else { table(&running) })?;
                }
                return self.result(running);
            }
            let mut poll_set = PollSet::new();
            let stdout = io::stdout();
            let mut deadline = if ordered.has_passed() { Deadline::NEVER } else { ordered };
            if self.follows {
                poll_set.gone(&stdout, CallEvent::ReaderGone);
            }
            for running in running.iter().filter(|running| running.ended.is_none()) {
                match &running.side {
                    Some(Side::There(call)) => {
                        call.watch(&mut poll_set, CallEvent::Call);
                        deadline = deadline.min(call.deadline());
                    }
                    Some(Side::Here(here)) => here.watch(&mut poll_set, CallEvent::Call),
                    None => {}
                }
            }
            let events = poll_set.wait(deadline).trying("wait for the other machines")?;
            if events.contains(&CallEvent::ReaderGone) {
                return Err(Failure::reader_gone());
            }
        }
    }
}

/// The exit code of a call whose machine was not reached, or was lost.
const LOST: u8 = 255;

/// The result of a call that could not print its output: `run` has a code for it that no command
/// returns.
fn unprinted(verb: &str, failure: Failure) -> Failure {
    if verb != "run" || failure.is(Reason::ReaderGone) {
        return failure;
    }
    let kind = failure.kind();
    failure.into_status(125, kind)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CallEvent {
    Call,
    Stdin,
    ReaderGone,
    Signal(usize),
}

/// A call to one machine, under way: its streams and signals are those of this process.
struct SingleCall {
    verb: String,
    call: RemoteCall,
    printer: Printer,
    /// Until the input has ended.
    stdin: Option<io::Stdin>,
    /// Those that are passed on. The others end this process, and the call with it, as they would here.
    signals: Vec<(i32, Signals)>,
    printed: Result<()>,
    follows: bool,
}

impl SingleCall {
    fn begin(
        verb: &str,
        machine: &MachineName,
        words: Vec<OsString>,
        plan: &Plan,
        printer: Printer,
    ) -> Result<SingleCall> {
        let mut call = begin(verb, machine, words, plan.timeout)?;
        match plan.stdin {
            Some(Stdin::Secret(descriptor)) => {
                child::leave_no_core().trying("keep the secret out of a core")?;
                let mut secret = secret::read(descriptor)?;
                call.stdin().push(&secret);
                call.stdin().push(b"\n");
                call.end_stdin();
                secret.fill(0);
            }
            Some(Stdin::Ours) => {}
            None => call.end_stdin(),
        }
        let passed: &[i32] = match verb {
            "run" | WORKER => signals::to_end(),
            _ => &[],
        };
        let signals = passed
            .iter()
            .map(|signal| Ok((*signal, Signals::catch(&[*signal])?)))
            .collect::<io::Result<_>>()
            .trying("catch signals")?;
        Ok(SingleCall {
            verb: verb.into(),
            call,
            printer,
            stdin: (plan.stdin == Some(Stdin::Ours)).then(io::stdin),
            signals,
            printed: Ok(()),
            follows: plan.follows,
        })
    }

    fn finish(mut self) -> Result<()> {
        loop {
            for came in self.call.drive() {
                match came {
                    Came::Ended(end) => {
                        self.printed
                            .and_then(|()| self.printer.finish())
                            .map_err(|failure| unprinted(&self.verb, failure))?;
                        return outcome(&self.verb, end, self.printer.is_nonsense());
                    }
                    _ if self.printed.is_err() => {}
                    Came::Stderr(bytes) => self.printer.stderr(&bytes),
                    Came::Stdout(bytes) => {
                        self.printed = self.printer.stdout(&bytes);
                        if self.printed.is_err() {
                            // A command whose output cannot be printed is interrupted, there as here.
                            match self.signals.first() {
                                Some((signal, _)) => self.call.signal(*signal),
                                None => return self.printed,
                            }
                        }
                    }
                }
            }
            self.wait()?;
        }
    }

    /// Waits until something happens, and passes on what came here.
    fn wait(&mut self) -> Result<()> {
        let mut poll_set = PollSet::new();
        self.call.watch(&mut poll_set, CallEvent::Call);
        if let Some(stdin) = self.stdin.as_ref().filter(|_| self.call.wants_stdin()) {
            poll_set.readable(stdin, CallEvent::Stdin);
        }
        let stdout = io::stdout();
        if self.follows {
            poll_set.gone(&stdout, CallEvent::ReaderGone);
        }
        for (index, (_, signals)) in self.signals.iter().enumerate() {
            poll_set.readable(signals, CallEvent::Signal(index));
        }
        for event in poll_set.wait(self.call.deadline()).trying("wait for the other machine")? {
            match event {
                CallEvent::Call => {}
                CallEvent::ReaderGone => return Err(Failure::reader_gone()),
                CallEvent::Signal(index) => {
                    let (signal, caught) = &mut self.signals[index];
                    if caught.take() && !self.call.takes_signals() {
                        let message = format!("{}: interrupted while disconnected", self.call.machine());
                        return Err(Failure::status(LOST, "lost", Some(message)));
                    }
                    self.call.signal(*signal);
                }
                CallEvent::Stdin => {
                    let mut buffer = vec![0; 64 * 1024];
                    match child::read_stdin(&mut buffer) {
                        Ok(0) => {
                            self.call.end_stdin();
                            self.stdin = None;
                        }
                        Ok(count) => self.call.stdin().push(&buffer[..count]),
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error).trying("read standard input"),
                    }
                }
            }
        }
        Ok(())
    }
}

/// The machines whose sessions `top`, `nbs-page` and `notify` show: those of `--on`, or else this one.
pub(crate) fn shown(call: &CommandLine) -> Result<Vec<Option<MachineName>>> {
    let mut on = call.values("on", cli::some)?;
    if on.is_empty() {
        on.extend(default_on());
    }
    if on.is_empty() { Ok(vec![None]) } else { machines(&on) }
}

/// The machines that `--on` names, `None` for this one.
fn machines(on: &[OsString]) -> Result<Vec<Option<MachineName>>> {
    let mut machines: Vec<Option<MachineName>> = Vec::new();
    for word in on {
        let named = if word == name::ALL { all()? } else { vec![Some(name::parse(word.as_bytes())?)] };
        for machine in named {
            if !machines.contains(&machine) {
                machines.push(machine);
            }
        }
    }
    Ok(machines)
}

/// This machine, those with a line, and those with a running bridge.
fn all() -> Result<Vec<Option<MachineName>>> {
    let state_dir = StateDir::open_or_make()?;
    let mut all = vec![None];
    all.extend(name::machines(&state_dir)?.into_iter().map(|machine| Some(machine.name)));
    for machine in calls::bridged(&state_dir)? {
        if !all.contains(&Some(machine.clone())) {
            all.push(Some(machine));
        }
    }
    Ok(all)
}

/// The machine of a session, `None` being this one, and the session's identifier there.
fn on_machine(session: &OsStr) -> Result<(Option<MachineName>, OsString)> {
    match name::of_session(session.as_bytes()) {
        None => Ok((None, session.to_owned())),
        Some(named) => named.map(|(machine, there)| (Some(machine), OsStr::from_bytes(there).to_owned())),
    }
}

fn begin(
    verb: &str,
    machine: &MachineName,
    words: Vec<OsString>,
    timeout: Option<Duration>,
) -> Result<RemoteCall> {
    let words = [verb.into()].into_iter().chain(words).map(OsString::into_vec).collect();
    RemoteCall::begin(machine, words, None, timeout)
}

/// The result here of a call that was executed there.
fn outcome(verb: &str, end: End, nonsense: Option<Failure>) -> Result<()> {
    match (end, nonsense) {
        // `run` has an exit code of its own for this.
        (End::Lost(late), _) if verb == "run" && late.is(Reason::TimedOut) => {
            Err(late.into_status(124, "timeout"))
        }
        (End::Lost(failure), _) | (_, Some(failure)) => Err(failure),
        (End::Exit(0), None) => Ok(()),
        (End::Exit(code), None) => Err(Failure::status(code, "failed", None)),
    }
}

/// A part of a call, under way.
struct Running {
    side: Option<Side>,
    printer: Printer,
    ended: Option<Result<()>>,
    told: bool,
}

enum Side {
    There(Box<RemoteCall>),
    /// The same call on this machine.
    Here(CallProcess),
}

impl Running {
    /// Is there no such session?
    fn has_none(&self) -> bool {
        let chooses = CHOOSE.contains(&self.printer.verb.as_str());
        chooses && matches!(&self.ended, Some(Err(failure)) if failure.code() == 2)
    }

    fn drive(&mut self) -> Result<()> {
        let (mut came, mut ended) = (Vec::new(), None);
        match &mut self.side {
            Some(Side::There(call)) => came = call.drive(),
            Some(Side::Here(here)) => here.drive(&mut came)?,
            None => {}
        }
        for came in came {
            match came {
                Came::Stdout(bytes) => self.printer.keep(&bytes),
                Came::Stderr(bytes) => self.printer.keep_error(&bytes),
                Came::Ended(end) => ended = Some(end),
            }
        }
        if let Some(end) = ended {
            self.ended = Some(outcome(&self.printer.verb, end, self.printer.is_nonsense()));
            self.side = None;
        }
        Ok(())
    }

    fn print(&mut self) -> Result<()> {
        self.printer.print_kept(self.ended.is_some())?;
        if let Some(Err(failure)) = &self.ended
            && !self.told
        {
            // Errors of other machines have already been printed, as they were there.
            if let Some(line) = failure.line(voice(&self.printer.verb), self.printer.json_errors) {
                let _ = io::stderr().write_all(line.as_bytes());
            }
            self.told = true;
        }
        Ok(())
    }
}

/// The lists, merged into one table.
fn table(running: &[Running]) -> String {
    let mut overviews: Vec<ActivityView> = Vec::new();
    for Running { printer, .. } in running {
        let machine = printer.machine.as_ref().map(MachineName::as_str);
        overviews.extend(
            printer
                .kept
                .split(|byte| *byte == b'\n')
                .filter_map(|line| ActivityView::parse(&Value::parse(line).ok()?, machine)),
        );
    }
    overviews.sort_by(listing::order);
    listing::table(&overviews)
}
