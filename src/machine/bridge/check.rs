//! Connects to a machine step by step and reports each step: `machine check`.

use std::env;

use crate::{
    machine::bridge::{Bridge, Link},
    numbers,
    outcome::{Result, Trying},
    sys::random,
    terminal::text,
};

/// A step of getting there, and how it went.
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) ok: bool,
    pub(crate) detail: String,
}

/// The steps, in their order.
const STEPS: [&str; 5] = ["command", "sh", "file", "nbs", "calls"];

/// Goes to a machine, step by step, and leaves nothing there but our file.
pub(crate) fn check(way: Vec<String>, send: &mut dyn FnMut(Check) -> Result<()>) -> Result<()> {
    // As the bridge itself is.
    env::set_current_dir("/").trying("go to /")?;
    let mut bridge = Bridge::new(way, random::hex::<8>().trying("generate a number")?)?;
    bridge.is_checking = true;
    let mut told = 0;
    while told < STEPS.len() && bridge.why.is_empty() {
        bridge.turn().trying("wait for the other machine")?;
        for (name, detail) in STEPS.into_iter().zip(bridge.gone()).skip(told) {
            send(Check { name, ok: true, detail })?;
            told += 1;
        }
    }
    if !bridge.why.is_empty() {
        send(Check { name: STEPS[told.min(STEPS.len() - 1)], ok: false, detail: bridge.why.clone() })?;
    }
    bridge.end();
    Ok(())
}

impl Bridge {
    /// The facts about each step that succeeded.
    fn gone(&self) -> Vec<String> {
        let bootstrap = match &self.link {
            Link::Starting { bootstrap, .. } => Some(bootstrap),
            _ => self.about.bootstrap.as_ref(),
        };
        let Some(bootstrap) = bootstrap else { return Vec::new() };
        let mut steps = vec![self.way.join(" ")];
        if !bootstrap.machine().is_empty() {
            steps.push(bootstrap.machine().to_owned());
        }
        if !bootstrap.folder().is_empty() {
            let copied = if bootstrap.has_copied() { ", copied now" } else { "" };
            let passed: String =
                bootstrap.passed().iter().map(|folder| format!("; skipped: {folder}")).collect();
            steps.push(format!("in {}{copied}{passed}", bootstrap.folder()));
        }
        if !self.about.version.is_empty() {
            steps.push(text::escaped(&self.about.version));
        }
        if let Some(time) = self.about.round_trip {
            steps.push(format!("round trip {} ms", numbers::seconds(time * 1_000, 1)));
        }
        steps
    }
}
