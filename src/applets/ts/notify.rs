//! notify - notify a person when a session waits, is done, fails or ends
//! Task: See, 15
//!
//! Usage: nbs-ts notify [--command=CMD] [--osc] [--webhook-file=FILE] [options]
//!
//! Runs until SIGTERM or C-c. Sends a notice once for each session that starts to
//! wait for input, is done, fails or ends. A session that a call waits on gets no
//! notice. Sessions already waiting get one at the start. `notify` sleeps while
//! nothing happens.
//!
//! sh runs CMD. Its standard input is the notice as an object: event, handle,
//! name, text. Its environment has NBS_EVENT (waiting, done, failed or ended),
//! NBS_HANDLE, NBS_NAME, NBS_TEXT and NBS_LINE (the notice in one line).
//!
//! Options:
//!   --command=CMD     run this for each notice
//!   --osc             print it to the terminal as a notification (OSC 9)
//!   --webhook-file=FILE
//!                     post it with curl to the URL in FILE, as an object with
//!                     the line in `text`
//!   --plain           post only the line, as ntfy expects
//!   --every=TIME      send at most one notice per session in TIME: the last, if
//!                     it still holds (default: 5)
//!   --quiet=HH:MM-HH:MM
//!                     send nothing between these times of day; afterwards send
//!                     what still holds
//!   --name=PART       only sessions with this in their name
//!   --on=MACHINE      sessions on that machine (repeatable; 'all': this and all
//!                     known machines; default: $NBS_TS_ON)
//!   --json            print errors as an object
//!
//! Example:
//!   nbs-ts notify --command='notify-send nbs "$NBS_LINE"' --quiet=22:00-07:00

use std::{
    ffi::OsStr,
    fs,
    io::Write,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    call::CommandLine,
    cli,
    feed::{Feed, FeedEvent, FeedNews},
    outcome::{Failure, Result, Trying},
    session::{Handle, StateDir, Target},
    sorted::{Map, Set},
    sys::{
        child::ExitStatus,
        deadline::Deadline,
        poll::PollSet,
        signals::{SIGCHLD, Signals},
        term,
    },
    terminal::text,
    ts::{
        notices::{Notices, PersonNotice, QuietHours, minute_of_day},
        remote,
    },
};

/// How many commands may run at a time; the others wait.
const MOST: usize = 8;

/// A program that takes a task is done a moment after input, and there is no event when that is over.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let ways = Ways {
        command: call.optional("command", cli::text)?,
        osc: call.has("osc"),
        url: call.optional("webhook-file", |_, path| url_in(path))?,
        plain: call.has("plain"),
    };
    let (every, pattern) = (call.value("every", cli::time)?, call.optional("name", cli::text)?);
    let quiet = call.optional("quiet", |option, value| {
        let hours = value.to_str().and_then(QuietHours::parse);
        hours.ok_or_else(|| cli::bad_value(option, value, "is not like 22:00-07:00"))
    })?;
    if ways.command.is_none() && !ways.osc && ways.url.is_none() {
        return Err(Failure::bad_args("missing --command, --osc or --webhook-file".into()));
    }

    let state_dir = StateDir::open_or_make()?;
    let ended = Signals::catch(&[SIGCHLD]).trying("wait for commands")?;
    let machines = remote::shown(call)?;
    let (feed, there_were) = Feed::begin(&state_dir, pattern.as_deref(), &machines)?;
    let mut notices = Notices::new(every);
    for overview in there_were.iter().filter(|overview| overview.glance.alive) {
        notices.begin(overview.address(), false);
    }
    let seen = there_were.into_iter().map(|overview| overview.glance.handle).collect();
    let again = Map::new();
    Notifier { state_dir, feed, notices, ways, quiet, ended, running: Vec::new(), again, seen }.run()
}

/// The ways to notify a person.
struct Ways {
    command: Option<String>,
    osc: bool,
    url: Option<String>,
    plain: bool,
}

struct Notifier {
    state_dir: StateDir,
    feed: Feed,
    notices: Notices,
    ways: Ways,
    quiet: Option<QuietHours>,
    ended: Signals,
    running: Vec<Child>,
    // The sessions to look at again without an event, and when.
    again: Map<Handle, Instant>,
    // The sessions here that are not new: those of the start, and those that there has been news of.
    seen: Set<Handle>,
}

#[derive(Clone, Copy)]
enum NotifyEvent {
    Feed(FeedEvent),
    CommandEnded,
}

impl Notifier {
    fn run(mut self) -> Result<()> {
        loop {
            self.take_news()?;
            let mut until = self.look_again()?.min(self.feed.deadline());
            until = until.min(self.notices.deadline()).min(self.send()?);
            let mut poll_set = PollSet::new();
            self.feed.watch(&mut poll_set, NotifyEvent::Feed);
            poll_set.readable(&self.ended, NotifyEvent::CommandEnded);
            for event in poll_set.wait(until).trying("watch the sessions")? {
                match event {
                    NotifyEvent::Feed(event) => self.feed.note(event),
                    NotifyEvent::CommandEnded => drop(self.ended.take()),
                }
            }
            self.running.retain_mut(|child| match child.try_wait() {
                Ok(None) => true,
                Ok(Some(status)) if !status.success() => {
                    let code = ExitStatus::number_of(status);
                    cli::warn("nbs-ts", &format!("cannot notify: the command failed (exit code {code})"));
                    false
                }
                _ => false,
            });
        }
    }

    fn take_news(&mut self) -> Result<()> {
        let Notifier { state_dir, feed, notices, again, seen, .. } = self;
        feed.take_news(state_dir, &mut |news| match news {
            FeedNews::Told(overview) => {
                let is_here = overview.machine.is_none();
                // Another machine looks at the screens of its own sessions.
                let looked = if is_here { state_dir.looked_at(*overview) } else { Some(*overview) };
                let Some(overview) = looked else { return };
                let handle = &overview.glance.handle;
                if is_here && seen.insert(handle.clone()) {
                    notices.begin(overview.address(), true);
                }
                if !overview.glance.alive {
                    let code = overview.exit_code.map(|code| format!("exit code {code}"));
                    notices.end(&overview.address(), code.unwrap_or_default());
                    again.remove(handle);
                    return;
                }
                if is_here && overview.wants_look() {
                    again.insert(handle.clone(), Instant::now() + LOOK_AGAIN);
                }
                notices.see(&overview);
            }
            FeedNews::Removed(address, _) => {
                // No other event reports the end of a session that is removed at once.
                notices.end(&address, String::new());
                again.remove(&address.handle);
                seen.remove(&address.handle);
            }
            FeedNews::Lost { machine, why, .. } => cli::warn("nbs-ts", &format!("{machine}: {why}")),
        })
    }

    /// Gives when to do so next.
    fn look_again(&mut self) -> Result<Deadline> {
        let (now, mut due) = (Instant::now(), Vec::new());
        self.again.retain(|handle, at| {
            if *at <= now {
                due.push(handle.clone());
            }
            *at > now
        });
        for handle in due {
            // If it has gone meanwhile, other events report that.
            let session = self.state_dir.session(&Target::Handle(handle)).ok();
            if let Some(Ok(Some(overview))) = session.map(|session| session.overview())
                && overview.glance.alive
            {
                self.notices.see(&overview);
            }
        }
        Ok(self.again.values().fold(Deadline::NEVER, |next, at| next.min(Deadline::at(*at))))
    }

    /// Sends the due notices; returns when to try again.
    fn send(&mut self) -> Result<Deadline> {
        if !self.notices.has_some() || self.running.len() >= MOST {
            return Ok(Deadline::NEVER);
        }
        if let Some(quiet) = self.quiet
            && let Some(minutes) = quiet.left_at(minute_now()?)
        {
            return Ok(Deadline::after(Duration::from_secs(60 * u64::from(minutes))));
        }
        for notice in self.notices.due(Instant::now()) {
            if let Err(failure) = self.tell_of(&notice) {
                cli::warn("nbs-ts", &failure.to_string());
            }
        }
        Ok(self.notices.deadline())
    }

    fn tell_of(&mut self, notice: &PersonNotice) -> Result<()> {
        let line = notice.line();
        if self.ways.osc {
            // It has no control characters, so it cannot end the sequence.
            let line = text::escaped(line.as_bytes());
            term::print_to_controlling(format!("\x1b]9;{line}\x07").as_bytes()).trying("print the notice")?;
        }
        if let Some(command) = &self.ways.command {
            let mut command_line = Command::new("sh");
            command_line
                .args(["-c", command])
                .env("NBS_EVENT", notice.event)
                .env("NBS_HANDLE", notice.address.to_string())
                .env("NBS_NAME", notice.name.as_deref().unwrap_or_default())
                .env("NBS_TEXT", &notice.text)
                .env("NBS_LINE", &line);
            self.running.push(start(command_line, &notice.json().line())?);
        }
        if let Some(url) = &self.ways.url {
            let body = if self.ways.plain { line.clone() } else { notice.json().text("text", &line).value() };
            let kind = if self.ways.plain { "text/plain; charset=utf-8" } else { "application/json" };
            // All of it on its standard input: everybody sees arguments.
            let config = format!(
                "url = {}\ndata-raw = {}\nheader = \"Content-Type: {kind}\"\n",
                quoted(url),
                quoted(&body)
            );
            let mut curl = Command::new("curl");
            curl.args(["--silent", "--show-error", "--fail", "--max-time", "30"]);
            curl.args(["--output", "/dev/null", "--config", "-"]);
            self.running.push(start(curl, &config)?);
        }
        Ok(())
    }
}

/// Starts it, with something to read: less than a pipe holds.
fn start(mut command: Command, input: &str) -> Result<Child> {
    let what = format!("run '{}'", command.get_program().display());
    let mut child = command.stdin(Stdio::piped()).spawn().trying(what)?;
    if let Some(mut stdin) = child.stdin.take() {
        // If the command does not read it, it needs none.
        let _ = stdin.write_all(input.as_bytes());
    }
    Ok(child)
}

/// As a file of curl's options has it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\n' => quoted += "\\n",
            '\r' => quoted += "\\r",
            '\t' => quoted += "\\t",
            letter => quoted.push(letter),
        }
    }
    quoted + "\""
}

/// The first line of that file.
fn url_in(path: &OsStr) -> Result<String> {
    let what = format!("read '{}'", path.display());
    let text = fs::read_to_string(path).trying(what)?;
    let url = text.lines().next().unwrap_or_default().trim();
    let is_one = ["http://", "https://"].iter().any(|scheme| url.starts_with(scheme));
    if !is_one || url.contains(char::is_control) {
        return Err(Failure::failed(format!("cannot use '{}': its first line is not a URL", path.display())));
    }
    let there = Command::new("curl").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    match there {
        Ok(_) => Ok(url.to_owned()),
        Err(error) => Err(error).trying("run 'curl', which --webhook-file needs"),
    }
}

/// The local time, in minutes of the day. date(1) knows the time zone.
fn minute_now() -> Result<u32> {
    let what = "ask date(1) for the time of day";
    let told = Command::new("date").arg("+%H:%M").output().trying(what)?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    minute_of_day(&told)
        .ok_or_else(|| Failure::failed(format!("cannot {what}: it printed '{}'", told.trim())))
}
