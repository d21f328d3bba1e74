//! report - say what a session does, before it is guessed
//!
//! Usage: nbs-ts report [SESSION] STATE [TEXT...]
//!
//! For what runs in a session to call, as the hooks of an agent do (help workers
//! shows them): `list --long`, `status --json`, `top` and `wait --waiting` go by
//! it, until something is typed into the session, or the next report.
//!
//! STATE is working, waiting (for somebody; TEXT is what it asks), done, failed
//! or idle; clear takes back what was reported. Without SESSION, it is the one
//! that this is called in. What follows STATE is TEXT, word by word.
//!
//! Options:
//!   --json            changes nothing but how an error is told
//!
//! Example:
//!   nbs-ts report waiting 'may I delete build/?'

use std::{ffi::OsString, os::unix::ffi::OsStrExt};

use crate::{
    cli::{self, Args},
    outcome::{Failure, Result},
    session::{Report, ReportState, SESSION_ENV, StateDir, client::RelayClient},
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    let mut target = None;
    let state = loop {
        match args.next()? {
            Some(lexopt::Arg::Value(word)) if is_state(&word) => break word,
            Some(lexopt::Arg::Value(word)) if target.is_none() => {
                target = Some(cli::parse_target(&word).map_err(|failure| no_state(&word, failure))?);
            }
            Some(lexopt::Arg::Value(word)) => return Err(no_state(&word, cli::missing_handle())),
            Some(other) => return Err(other.unexpected().into()),
            None => return Err(Failure::bad_args(format!("missing a state: {STATES}"))),
        }
    };
    let text = args.free_text(None)?;
    if text.len() > Report::LONGEST {
        return Err(Failure::bad_args(format!(
            "the text has {} bytes, and may have {}",
            text.len(),
            Report::LONGEST
        )));
    }
    let target = match target {
        Some(target) => target,
        None => {
            let ours = std::env::var_os(SESSION_ENV).filter(|ours| !ours.is_empty());
            let outside = || Failure::bad_args("missing a session: this is not called in one".into());
            cli::parse_target(&ours.ok_or_else(outside)?)?
        }
    };

    let session = StateDir::open()?.session(&target)?;
    let said =
        if text.is_empty() { state.as_bytes().to_vec() } else { [state.as_bytes(), b" ", &text].concat() };
    let mut client = RelayClient::open(&session)?.ok_or_else(|| session.ended())?;
    if client.report(&said)? { Ok(()) } else { Err(session.ended()) }
}

const STATES: &str = "working, waiting, done, failed, idle or clear";

fn is_state(word: &OsString) -> bool {
    word == "clear" || ReportState::parse(word.as_bytes()).is_some()
}

/// A word that is neither a state nor names a session.
fn no_state(word: &OsString, failure: Failure) -> Failure {
    match word.as_bytes().first() {
        Some(b'@') => failure,
        _ => Failure::bad_args(format!("'{}' is no state: {STATES}", word.display())),
    }
}
