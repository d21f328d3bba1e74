//! help - show how to use a command, or a topic of the reference
//! Task: Maintain, 4
//!
//! Usage: nbs-ts help [options] [COMMAND|TOPIC]
//!        nbs-ts help --skill [--json]
//!
//! Without an operand, lists the commands and the topics. A topic is a page of
//! Markdown. `nbs help TOPIC` prints it, too.
//!
//! Options:
//!   --topic           print the topic if a command has the same name
//!   --skill           print a page of Markdown that teaches an agent which call
//!                     and which wait to use
//!   --json            print an object: commands, a list of objects: name,
//!                     summary, usage, options (name, value, default, repeatable,
//!                     help), operands (name, optional, repeatable, text) and
//!                     exits; with COMMAND, just its object; for a topic: name,
//!                     summary, text; for --skill: skill
//!
//! Example:
//!   nbs-ts help send

use crate::{
    applet::{self, find},
    applets::ts::{self, VERBS},
    call::CommandLine,
    cli,
    help::{texts::Text, topics},
    json::Object,
    outcome::{Failure, Result},
};

const SKILL: Text = Text::of("applets/ts/skill.md");

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let (wanted, topic) = (call.operand("COMMAND|TOPIC"), call.has("topic"));
    if call.has("skill") {
        return cli::print(match call.json() {
            true => Object::new().text("skill", SKILL.get()).line(),
            false => SKILL.get().to_owned(),
        });
    }
    let Some(word) = wanted else { return ts::overview(call.json()) };
    match (find(VERBS, word), topics::find(word)) {
        (Some(verb), _) if !topic => applet::help(verb, call.json()),
        (_, Some(topic)) => applet::help_on(topic, call.json()),
        _ => {
            let what = if topic { "topic" } else { "command or topic" };
            Err(Failure::bad_args(format!("nbs-ts has no {what} '{}'; try 'nbs-ts help'", word.display())))
        }
    }
}
