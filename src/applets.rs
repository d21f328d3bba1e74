//! The applets: what they are, which one was called, and how a call ends.
//!
//! An applet of `nbs` and a verb of `nbs-ts` are the same thing at two depths,
//! a row made from the header of its file by `build.rs`, which also writes the `mod` lines.

mod bridge;
mod call;
mod child;
mod far;
mod keeper;
mod launch_agent;
mod mcp;
mod monitor;
mod page;
mod relay;
mod screen;
mod spawn_worker;
mod starter;
mod terminator;
mod tmux;
mod tmux_pipe;
mod ts;
mod ts_helper;
mod viewer;

use std::{
    ffi::{OsStr, OsString},
    io::Write,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use crate::{
    applet::{self, Applet, Run, find, listing},
    call::{Form, Operand, Syntax},
    cli::{self, Args},
    help::{
        self, completion,
        page::Page,
        roff,
        texts::Text,
        topics::{self, TOPICS},
    },
    install, machine,
    outcome::{Failure, Reason, Result, Trying},
    sys::{
        files, inherited, links,
        signals::{self, SIGPIPE},
    },
};

include!(concat!(env!("OUT_DIR"), "/applets.rs"));

/// Runs the applet named by `called_as`, prints its messages, and returns the exit code of the process.
pub(crate) fn call(called_as: &OsStr, words: Vec<OsString>) -> u8 {
    if inherited::is_setuid() {
        let why =
            "cannot run with the set-user-ID or set-group-ID bit on this file: take it off (chmod ug-s)";
        return end("nbs", Failure::failed(why.into()), false);
    }
    let umask = files::set_private_umask();
    // A limit of file size must be an error, and must not kill us. If SIGXFSZ cannot be ignored, it ends us,
    // as it would have anyway.
    let _ = signals::disregard(signals::SIGXFSZ);
    let name = Path::new(called_as).file_name().unwrap_or(called_as);
    let asked = asked_of_all(name, &words);
    let mut args = Args::new(words, umask);
    let (who, result) = match applet_of_link(name) {
        _ if asked.is_some() => ("nbs".to_owned(), asked.map_or(Ok(()), cli::print)),
        Some(applet) => (voice_of(applet), run_called(applet, &mut args)),
        None if is_our_own(name) => multicall(called_as, &mut args),
        None => ("nbs".to_owned(), Err(unknown(name))),
    };
    match result {
        Ok(()) => 0,
        Err(failure) => end(&who, failure, args.json_asked()),
    }
}

/// Is this file called by its own name, and by no link's? Releases name it by their version or
/// architecture (`nbs-0.3.0`, `nbs-x86_64`).
fn is_our_own(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"nbs") && applet_of_link(name).is_none()
}

/// The prefix of an applet's messages. A call for another process is one of nbs-ts.
fn voice_of(applet: &Applet) -> String {
    match applet.name {
        "call" => "nbs-ts".to_owned(),
        name => link_of(name),
    }
}

/// The answers that we give under every name.
fn asked_of_all(name: &OsStr, words: &[OsString]) -> Option<String> {
    let is_tmux = |word: &OsStr| word == TMUX || word == "nbs-tmux";
    if is_tmux(name) || (is_our_own(name) && words.first().is_some_and(|word| is_tmux(word))) {
        return None;
    }
    let words = match words {
        [word, rest @ ..] if is_our_own(name) && applet(word).is_ok() => rest,
        all => all,
    };
    match words {
        [word] if word == "--version" || word == "-V" => Some(version()),
        [word, line @ ..] if word == "--complete" => Some(candidates(line)),
        _ => None,
    }
}

fn applet_of_link(name: &OsStr) -> Option<&'static Applet> {
    if name == TMUX {
        return find(APPLETS, name);
    }
    let name = OsStr::from_bytes(name.as_bytes().strip_prefix(b"nbs-")?);
    find(APPLETS, name).or_else(|| find(ROLES, name))
}

/// The applet whose link is another program's name. So it is made only if it is asked for, and all its
/// words are that program's.
const TMUX: &str = "tmux";

/// The name of an applet's link.
fn link_of(name: &str) -> String {
    if name == TMUX { name.to_owned() } else { format!("nbs-{name}") }
}

/// An applet that people call, by either of its names.
fn applet(name: &OsStr) -> Result<&'static Applet> {
    let bare = name.as_bytes().strip_prefix(b"nbs-").map_or(name, OsStr::from_bytes);
    find(APPLETS, bare).ok_or_else(|| unknown(name))
}

/// A call as `nbs` itself: an option of its own, or an applet's name first.
fn multicall(called_as: &OsStr, args: &mut Args) -> (String, Result<()>) {
    use lexopt::Arg::{Long, Value};
    let ours = match args.next() {
        Ok(None) => overall_help(args.json_asked()),
        Err(failure) if failure.is(Reason::HelpAsked) => overall_help(args.json_asked()),
        Ok(Some(Long("list"))) => cli::print(link_names()),
        Ok(Some(Long("install"))) => install(called_as, args),
        Ok(Some(Long("completions"))) => completions(args),
        Ok(Some(Long("man"))) => man(args),
        Ok(Some(Value(word))) if word == "help" => help_operand(args),
        Ok(Some(Value(word))) => match applet(&word) {
            Ok(applet) => return (link_of(applet.name), run_called(applet, args)),
            Err(failure) => Err(failure),
        },
        Ok(Some(other)) => Err(other.unexpected().into()),
        Err(failure) => Err(failure),
    };
    ("nbs".into(), ours)
}

/// Runs the applet; if the call is wrong, prints its usage.
fn run_called(applet: &'static Applet, args: &mut Args) -> Result<()> {
    applet::run(applet, args).map_err(|failure| match (failure.reason(), applet.run) {
        (Reason::BadArgs, Run::Call(_)) => {
            failure.reworded(|why| format!("{why}; usage: {}", applet.page().usage[0]))
        }
        _ => failure,
    })
}

/// The help of `nbs`: as text, or as an object.
fn overall_help(json: bool) -> Result<()> {
    if json { cli::print(applet::objects(APPLETS)) } else { cli::print(overview()) }
}

/// `nbs help [APPLET|TOPIC]`.
fn help_operand(args: &mut Args) -> Result<()> {
    let Some(word) = sole_word(args)? else { return overall_help(args.json_asked()) };
    match (applet(&word), topics::find(&word)) {
        // For an applet that is a topic, too, `--help` prints the page.
        (_, Some(topic)) => applet::help_on(topic, args.json_asked()),
        (Ok(applet), _) if applet.name == "ts" => ts::overview(args.json_asked()),
        (Ok(applet), _) => applet::help(applet, args.json_asked()),
        (Err(_), None) => {
            Err(Failure::bad_args(format!("nbs has no applet or topic '{}'; try 'nbs help'", word.display())))
        }
    }
}

/// The one operand that there may be.
pub(crate) fn sole_word(args: &mut Args) -> Result<Option<OsString>> {
    let mut sole = None;
    while let Some(arg) = args.next()? {
        match arg {
            lexopt::Arg::Value(word) if sole.is_none() => sole = Some(word),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(sole)
}

/// `nbs --man NAME`.
fn man(args: &mut Args) -> Result<()> {
    let word = sole_word(args)?.unwrap_or_else(|| "nbs".into());
    let applet = if word == "nbs" { None } else { Some(applet(&word)?) };
    cli::print(man_page(applet))
}

/// The man page of an applet, or of `nbs`.
fn man_page(applet: Option<&Applet>) -> String {
    let Some(applet) = applet else {
        let names = link_names();
        let links: Vec<&str> = names.lines().collect();
        return roff::man_page("nbs", &help::parse(&overview()), &[], TOPICS, &links);
    };
    let commands: Vec<Page> = commands(applet).iter().map(|verb| verb.page()).collect();
    roff::man_page(&link_of(applet.name), &applet.page(), &commands, &[], &["nbs"])
}

/// `nbs --completions SHELL`.
fn completions(args: &mut Args) -> Result<()> {
    let shell = sole_word(args)?.unwrap_or_default();
    let none = || {
        Failure::bad_args(format!("nbs has no completions for '{}'; try bash, zsh or fish", shell.display()))
    };
    cli::print(completion_script(&shell.to_string_lossy()).ok_or_else(none)?)
}

fn completion_script(shell: &str) -> Option<String> {
    completion::script(shell, &format!("nbs {}", link_names().trim_end().replace('\n', " ")))
}

/// The candidates for the last word of `line`, which is being typed, and whose first word is the name of the
/// call.
fn candidates(line: &[OsString]) -> String {
    let words: Vec<String> = line.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let Some((called_as, mut words)) = words.split_first() else { return String::new() };
    let overview = overview();
    let (mut header, mut syntax, mut table, mut topics) = (&overview[..], None, APPLETS, &[][..]);
    if let Some(applet) = called_as.rsplit('/').next().and_then(|name| applet_of_link(name.as_ref())) {
        (header, syntax, table) = (applet.help(), Some(applet.syntax), commands(applet));
    }
    while let [word, rest @ ..] = words
        && !rest.is_empty()
    {
        let found = find(table, word.strip_prefix("nbs-").unwrap_or(word).as_ref());
        if let Some(found) = found {
            (header, syntax) = (found.help(), Some(found.syntax));
        } else if word != "help" {
            break;
        }
        words = rest;
        // `help` is followed by the name of a command or a topic, not by a call.
        if word == "help" {
            topics = TOPICS;
            break;
        }
        table = found.map_or(&[], commands);
    }
    let commands = table.iter().map(|row| (row.name, row.summary));
    let topics = topics.iter().map(|topic| (topic.name, topic.summary()));
    let summaries: Vec<(&str, &str)> = commands.chain(topics).collect();
    completion::candidates(&help::parse(header), syntax, &summaries, words)
}

/// The page of a command of `nbs-ts`, which must exist, and its syntax.
pub(crate) fn page_of_verb(name: &str) -> (Page<'static>, &'static Syntax) {
    let verb = find(ts::VERBS, name.as_ref()).expect("it is a command of nbs-ts");
    (verb.page(), verb.syntax)
}

/// Executes a call of `nbs-ts`.
pub(crate) fn run_verb(args: &mut Args) -> Result<()> {
    ts::run(args)
}

/// Executes a call of `nbs-spawn-worker`.
pub(crate) fn run_worker(args: &mut Args) -> Result<()> {
    applet::run(applet(machine::WORKER.as_ref())?, args)
}

/// The commands that an applet has.
fn commands(applet: &Applet) -> &'static [Applet] {
    if applet.name == "ts" { ts::VERBS } else { &[] }
}

fn unknown(name: &OsStr) -> Failure {
    let names: Vec<String> = APPLETS.iter().map(|applet| link_of(applet.name)).collect();
    Failure::bad_args(format!("nbs has no applet '{}'; try one of: {}", name.display(), names.join(", ")))
}

fn overview() -> String {
    format!(
        "nbs - terminal sessions for programs\n\nUsage: nbs APPLET [arguments], or a link named \
         nbs-APPLET\n\n{}\n\
         Options:\n  \
         --list                    the link names, one per line\n  \
         --install [--symlink|--hard] [--force] [--tmux] DIR\n                            \
         make the links in DIR, all or none; keep links that\n                            \
         exist; replace other files of these names only\n                            \
         with --force; with --tmux, also make a link `tmux`\n  \
         --install --prefix=DIR    put this file and its links in DIR/bin, man pages\n                            \
         and completions in DIR/share; also nbs-ARCH, a file\n                            \
         for another architecture, if it is beside this one\n  \
         --completions SHELL       a script that completes commands, options and\n                            \
         sessions, for bash, zsh or fish\n  \
         --man NAME                the page of nbs or of a link for man(1)\n  \
         --version                 version, commit and target\n\n\
         The reference, by topic (nbs help TOPIC):\n\n{}\n\
         More: nbs APPLET --help (of tmux: nbs help tmux)\n",
        listing(APPLETS),
        topics::listing()
    )
}

fn version() -> String {
    format!("nbs {} ({} {})\n", env!("CARGO_PKG_VERSION"), env!("NBS_COMMIT"), env!("NBS_TARGET"))
}

fn link_names() -> String {
    let usual = APPLETS.iter().filter(|applet| applet.name != TMUX);
    usual.map(|applet| link_of(applet.name) + "\n").collect()
}

/// `nbs --install`: makes the links, all or none; with `--prefix` installs all other files, too.
fn install(called_as: &OsStr, args: &mut Args) -> Result<()> {
    use lexopt::Arg::{Long, Value};
    let (mut hard, mut symbolic, mut force, mut tmux) = (false, false, false, false);
    let (mut folder, mut prefix) = (None, None);
    while let Some(arg) = args.next()? {
        match arg {
            Long("symlink") => symbolic = true,
            Long("hard") => hard = true,
            Long("force") => force = true,
            Long("tmux") => tmux = true,
            Long("prefix") => prefix = Some(args.value()?),
            Value(word) if folder.is_none() => folder = Some(word),
            other => return Err(other.unexpected().into()),
        }
    }
    if hard && symbolic {
        return Err(Failure::bad_args("cannot use --symlink with --hard".into()));
    }
    let kind = if hard { links::LinkKind::Hard } else { links::LinkKind::Symbolic };
    let mut names: Vec<String> = link_names().lines().map(str::to_owned).collect();
    names.extend(tmux.then(|| TMUX.to_owned()));
    let our_file = || -> Result<PathBuf> {
        let ourselves = links::our_file(Path::new(called_as)).trying("find our own file")?;
        install::check_ourselves(&ourselves)?;
        Ok(ourselves)
    };
    match (prefix, folder) {
        (Some(_), Some(_)) => Err(Failure::bad_args("cannot use --prefix with DIR".into())),
        (Some(prefix), None) if prefix.is_empty() => Err(Failure::bad_args("--prefix is empty".into())),
        (Some(prefix), None) => {
            install::below(Path::new(&prefix), &our_file()?, manuals_and_completions(), &names, kind, force)
        }
        (None, None) => Err(Failure::bad_args("missing DIR, the directory for the links".into())),
        (None, Some(folder)) if !Path::new(&folder).is_dir() => Err(Failure::failed(format!(
            "cannot make links in '{}': there is no such directory",
            folder.display()
        ))),
        (None, Some(folder)) => {
            let folder = Path::new(&folder);
            links::make(&our_file()?, folder, &names, kind, force)
                .map_err(|(name, error)| install::taken(&folder.join(name), &error))
        }
    }
}

/// The texts that a package has, where the shells and man(1) look for them.
fn manuals_and_completions() -> Vec<install::Item> {
    let script = |shell| completion_script(shell).expect("it is one of those that we know");
    let mut texts = vec![install::Item::text("share/zsh/site-functions/_nbs", script("zsh"))];
    let usual = APPLETS.iter().filter(|applet| applet.name != TMUX);
    let pages = usual.map(Some).chain([None]);
    for applet in pages {
        let name = applet.map_or("nbs".to_owned(), |applet| format!("nbs-{}", applet.name));
        let text = |path: String, content| install::Item::text(path, content);
        texts.push(text(format!("share/man/man1/{name}.1"), man_page(applet)));
        // These shells look for a file of the command's name.
        texts.push(text(format!("share/bash-completion/completions/{name}"), script("bash")));
        texts.push(text(format!("share/fish/vendor_completions.d/{name}.fish"), script("fish")));
    }
    texts
}

/// Prints why a call failed, and returns the exit code of the process.
fn end(who: &str, failure: Failure, json: bool) -> u8 {
    if let Some(line) = failure.line(who, json) {
        // If standard error is closed, no one reads this.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    if failure.is(Reason::ReaderGone) {
        signals::end_as_by(SIGPIPE);
    }
    failure.code()
}
