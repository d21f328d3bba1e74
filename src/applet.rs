//! Something that can be called by name: an applet of `nbs`, or a verb of `nbs-ts`.
//!
//! `build.rs` makes a row of the header of each file below `applets`.

use std::ffi::OsStr;

use crate::{
    call::{CommandLine, Syntax},
    cli::{self, Args},
    help::{self, page::Page, texts::Text, topics::Topic},
    json::Object,
    outcome::{Reason, Result},
    ts::remote,
};

/// One thing that can be called by name.
///
/// Invariant: all but `run` come from the header of its file, which [`manual`] can read
/// unless it is an internal role's.
#[derive(Clone, Copy)]
pub(crate) struct Applet {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) header: Text,
    pub(crate) run: Run,
    pub(crate) syntax: &'static Syntax,
}

/// The input of an applet.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// Its words, as they are.
    Words(fn(&mut Args) -> Result<()>),
    /// The call as its header declares it.
    Call(fn(&CommandLine) -> Result<()>),
}

/// The header of `nbs-ts`, with the exit codes that most commands have.
pub(crate) const TS: Text = Text::of("ts");

impl Applet {
    pub(crate) fn help(&self) -> &'static str {
        self.header.get()
    }

    /// The same, read.
    pub(crate) fn page(&self) -> Page<'static> {
        help::parse(self.help())
    }
}

/// Finds a row by its name.
pub(crate) fn find(table: &'static [Applet], name: &OsStr) -> Option<&'static Applet> {
    table.iter().find(|applet| name == applet.name)
}

/// A line for each row: its name and its summary.
pub(crate) fn listing(table: &[Applet]) -> String {
    let width = table.iter().map(|applet| applet.name.len()).max().unwrap_or(0);
    table.iter().map(|applet| format!("  {:width$}  {}\n", applet.name, applet.summary)).collect()
}

/// Runs an applet; prints its help instead, if that was asked for.
pub(crate) fn run(applet: &'static Applet, args: &mut Args) -> Result<()> {
    let done = match applet.run {
        Run::Words(run) => run(args),
        Run::Call(run) => CommandLine::read(applet.syntax, args).and_then(|call| {
            if let Some(done) = remote::call(applet.name, &call) {
                return done;
            }
            if let Some(option) = call.option_in_text() {
                cli::warn("nbs-ts", &format!("'--{option}' is typed as text; options go before SESSION"));
            }
            run(&call)?;
            call.check_processed();
            Ok(())
        }),
    };
    match done {
        Err(failure) if failure.is(Reason::HelpAsked) => help(applet, args.json_asked()),
        other => other,
    }
}

/// The help of an applet: as text, or as an object.
pub(crate) fn help(applet: &Applet, json: bool) -> Result<()> {
    if json { cli::print(object(applet).line()) } else { cli::print(applet.help()) }
}

/// A topic: as text, or as an object.
pub(crate) fn help_on(topic: &Topic, json: bool) -> Result<()> {
    if json { cli::print(topic.object().line()) } else { cli::print(topic.text()) }
}

/// All commands of a table in one object.
pub(crate) fn objects(table: &[Applet]) -> String {
    Object::new().objects("commands", table.iter().map(object)).line()
}

fn object(applet: &Applet) -> Object {
    help::object(&applet.page(), applet.syntax, &help::parse(TS.get()).exits)
}
