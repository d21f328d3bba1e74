//! The applets: what they are, which one was called, and how a call ends.
//!
//! An applet of `nbs` and a verb of `nbs-ts` are the same thing at two depths,
//! a row made from the header of its file by `build.rs`. To add one: write the
//! file, add its `mod` line.

mod child;
mod keeper;
mod relay;
mod ts;
mod ts_helper;

use std::{
    ffi::{OsStr, OsString},
    io::Write,
    os::unix::ffi::OsStrExt,
    path::Path,
    process::ExitCode,
};

use crate::{
    cli::{self, Args},
    outcome::{Failure, Result},
    sys::{files, inherited, links, signals},
    text,
};

/// One thing that can be called by name.
///
/// Invariant: all but `run` come from the header of its file, and `help` is
/// that header.
#[derive(Clone, Copy)]
pub(crate) struct Applet {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    /// Empty for an internal role.
    pub(crate) usage: &'static str,
    pub(crate) help: &'static str,
    pub(crate) run: fn(&mut Args) -> Result<()>,
}

include!(concat!(env!("OUT_DIR"), "/applets.rs"));

/// Finds a row by its name.
pub(crate) fn find(table: &'static [Applet], name: &OsStr) -> Option<&'static Applet> {
    table.iter().find(|applet| name == applet.name)
}

/// A line for each row: its name and what it does.
pub(crate) fn listing(table: &[Applet]) -> String {
    let width = table.iter().map(|applet| applet.name.len()).max().unwrap_or(0);
    table.iter().map(|applet| format!("  {:width$}  {}\n", applet.name, applet.summary)).collect()
}

/// Runs what was called as `called_as`, prints what it has to say, and tells
/// how the process shall exit.
pub(crate) fn call(called_as: &OsStr, words: Vec<OsString>) -> ExitCode {
    if inherited::is_setuid() {
        let why =
            "cannot run with the set-user-ID or set-group-ID bit on this file: take it off (chmod ug-s)";
        return end("nbs", Failure::Failed(why.into()), false);
    }
    let umask = files::set_private_umask();
    // A limit of file size is an error to be told, and no reason to die. Where
    // it cannot be caught, it ends us, as it would have anyway.
    let _ = signals::disregard(signals::SIGXFSZ);
    let name = Path::new(called_as).file_name().unwrap_or(called_as);
    let mut args = Args::new(words, umask);
    let (who, result) = match applet_of_link(name) {
        Some(applet) => (format!("nbs-{}", applet.name), run(applet, &mut args)),
        None if name == "nbs" => multicall(&mut args),
        None => ("nbs".to_owned(), Err(unknown(name))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => end(&who, failure, args.json_asked()),
    }
}

fn applet_of_link(name: &OsStr) -> Option<&'static Applet> {
    let name = OsStr::from_bytes(name.as_bytes().strip_prefix(b"nbs-")?);
    find(APPLETS, name).or_else(|| find(ROLES, name))
}

/// A call as `nbs` itself: an option of its own, or an applet's name first.
fn multicall(args: &mut Args) -> (String, Result<()>) {
    use lexopt::Arg::{Long, Short, Value};
    let word = match args.next() {
        Ok(None) | Err(Failure::HelpAsked) => return ("nbs".into(), cli::print(overview())),
        Ok(Some(Long("version") | Short('V'))) => return ("nbs".into(), cli::print(version())),
        Ok(Some(Long("list"))) => return ("nbs".into(), cli::print(link_names())),
        Ok(Some(Long("install"))) => return ("nbs".into(), install(args)),
        Ok(Some(Value(word))) => word,
        Ok(Some(other)) => return ("nbs".into(), Err(other.unexpected().into())),
        Err(failure) => return ("nbs".into(), Err(failure)),
    };
    match find(APPLETS, &word).or_else(|| applet_of_link(&word)) {
        Some(applet) if !applet.usage.is_empty() => (format!("nbs-{}", applet.name), run(applet, args)),
        _ => ("nbs".into(), Err(unknown(&word))),
    }
}

/// Runs an applet; prints its help instead, if that was asked for.
pub(crate) fn run(applet: &Applet, args: &mut Args) -> Result<()> {
    match (applet.run)(args) {
        Err(Failure::HelpAsked) => cli::print(applet.help),
        other => other,
    }
}

fn unknown(name: &OsStr) -> Failure {
    let names: Vec<String> = APPLETS.iter().map(|applet| format!("nbs-{}", applet.name)).collect();
    Failure::BadArgs(format!("'{}' is no applet of nbs; there are: {}", name.display(), names.join(", ")))
}

fn overview() -> String {
    format!(
        "nbs - terminal sessions for programs\n\nUsage: nbs APPLET [arguments], or a link named nbs-APPLET\n\n{}\n\
         Options:\n  \
         --list                    the link names, one a line\n  \
         --install [--symlink|--hard] [--force] DIR\n                            \
         makes the links in DIR\n  \
         --version                 version, commit and target\n\n\
         More: nbs APPLET --help\n",
        listing(APPLETS)
    )
}

fn version() -> String {
    format!("nbs {} ({} {})\n", env!("CARGO_PKG_VERSION"), env!("NBS_COMMIT"), env!("NBS_TARGET"))
}

fn link_names() -> String {
    APPLETS.iter().map(|applet| format!("nbs-{}\n", applet.name)).collect()
}

/// `nbs --install`: makes the links, all or none.
fn install(args: &mut Args) -> Result<()> {
    use lexopt::Arg::{Long, Value};
    let (mut hard, mut symbolic, mut force, mut folder) = (false, false, false, None);
    while let Some(arg) = args.next()? {
        match arg {
            Long("symlink") => symbolic = true,
            Long("hard") => hard = true,
            Long("force") => force = true,
            Value(word) if folder.is_none() => folder = Some(word),
            other => return Err(other.unexpected().into()),
        }
    }
    if hard && symbolic {
        return Err(Failure::BadArgs("--symlink and --hard exclude each other".into()));
    }
    let folder = folder.ok_or_else(|| Failure::BadArgs("missing the folder for the links".into()))?;
    let kind = if hard { links::Kind::Hard } else { links::Kind::Symbolic };
    let names: Vec<String> = link_names().lines().map(str::to_owned).collect();
    links::make(Path::new(&folder), &names, kind, force).map_err(|(name, error)| {
        let next = if error.kind() == std::io::ErrorKind::AlreadyExists && !force {
            "; --force replaces it"
        } else {
            ""
        };
        Failure::Failed(format!("cannot make '{}': {error}{next}", Path::new(&folder).join(name).display()))
    })
}

/// Says why a call failed, and how the process shall exit.
fn end(who: &str, failure: Failure, json: bool) -> ExitCode {
    if let Some(line) = failure.line(who, json) {
        // Where standard error is gone there is nobody left to tell.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    if matches!(failure, Failure::ReaderGone) {
        signals::end_as_sigpipe_would();
    }
    failure.exit_code()
}

/// What a user reads of a command, in one line.
pub(crate) fn one_line(bytes: &[u8]) -> String {
    text::escaped(bytes)
}
