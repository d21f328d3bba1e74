//! report - set the activity that a session shows
//! Task: See, 11
//!
//! Usage: nbs-ts report [options] [SESSION] STATE [TEXT...]
//!
//! Programs in a session call this, as an agent's hooks do (see 'nbs help
//! workers'). `list --long`, `status --json`, `top` and `wait --waiting` show the
//! report until something is typed into the session, or the next report.
//!
//! STATE is working, waiting (for input; TEXT is the question), done, failed or
//! idle; clear removes the report. Without SESSION, the session is the one that
//! the call runs in. Everything after STATE is TEXT.
//!
//! Outside a session, `report` sends the same to its terminal by the program
//! status protocol (OSC 7501). If there is no terminal, it fails.
//!
//! Options:
//!   --hook            without TEXT: read it from the JSON that agents pass to
//!                     their hooks on standard input (message, or tool_name)
//!   --quiet           without a session and a terminal, do nothing: exit 0
//!   --json            print errors as an object
//!
//! Example:
//!   nbs-ts report waiting 'may I delete build/?'

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    time::Duration,
};

use crate::{
    call::CommandLine,
    cli,
    json::Value,
    outcome::{Failure, Reason, Result, Trying},
    session::{self, Report, ReportState, SESSION_ENV, StateDir, Target, client::RelayClient},
    sys::{deadline::Deadline, socket, term},
    terminal::program_status,
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let target = call.operand("SESSION").map(cli::parse_target).transpose()?;
    let word = call.operand("STATE").unwrap_or_default();
    if !is_state(word) {
        return Err(Failure::bad_args(format!("'{}' is not a state; try {STATES}", word.display())));
    }
    let state = word.to_owned();
    let (quiet, mut text) = (call.has("quiet"), call.text());
    if call.has("hook") && text.is_empty() {
        text = hook_text(&cli::whole_stdin(Deadline::after(HOOK_PATIENCE))?);
    }
    if text.len() > Report::LONGEST {
        return Err(Failure::bad_args(format!(
            "the text has {} bytes; at most {} are allowed",
            text.len(),
            Report::LONGEST
        )));
    }
    let ours = std::env::var_os(SESSION_ENV).filter(|ours| !ours.is_empty());
    let reported = match (target, ours) {
        (Some(target), _) => report(&target, &state, &text),
        (None, Some(ours)) => {
            report(&cli::parse_target(&ours)?, &state, &text).or_else(|failure| {
                // Without a network, a session reaches its relay by its terminal only.
                match socket::refused_call("nbs-report") {
                    Some(_) => report_to_terminal(&state, &text),
                    None => Err(failure),
                }
            })
        }
        (None, None) => report_to_terminal(&state, &text),
    };
    match reported {
        Err(failure) if quiet && matches!(failure.reason(), Reason::Failed | Reason::NotFound) => Ok(()),
        reported => reported,
    }
}

fn report(target: &Target, state: &OsString, text: &[u8]) -> Result<()> {
    let session = StateDir::open()?.session(target)?;
    let said =
        if text.is_empty() { state.as_bytes().to_vec() } else { [state.as_bytes(), b" ", text].concat() };
    let mut client = RelayClient::open(&session)?.ok_or_else(|| session.ended())?;
    if client.report(&said)? { Ok(()) } else { Err(session.ended()) }
}

/// Reports to a terminal that is not one of our sessions.
fn report_to_terminal(state: &OsString, text: &[u8]) -> Result<()> {
    let state = ReportState::parse(state.as_bytes()).map(session::program_state);
    let sequence = program_status::sequence(state, text);
    term::print_to_controlling(sequence.as_bytes()).trying("report: not in a session, and without a terminal")
}

/// How long an agent may take to send all of it.
const HOOK_PATIENCE: Duration = Duration::from_secs(5);

/// The question in an agent's data for a hook; empty if it cannot be parsed.
fn hook_text(given: &[u8]) -> Vec<u8> {
    let given = Value::parse(given).unwrap_or_default();
    let message = given["message"].as_str().map(str::to_owned);
    let tool = || given["tool_name"].as_str().map(|tool| format!("use {tool}?"));
    let mut text = message.or_else(tool).unwrap_or_default().into_bytes();
    text.truncate(Report::LONGEST);
    text
}

const STATES: &str = "working, waiting, done, failed, idle or clear";

fn is_state(word: &OsStr) -> bool {
    word == "clear" || ReportState::parse(word.as_bytes()).is_some()
}
