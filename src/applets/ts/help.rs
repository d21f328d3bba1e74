//! help - tell how to use a command, or what the reference says of a topic
//!
//! Usage: nbs-ts help [options] [COMMAND|TOPIC]
//!
//! Without an operand, lists the commands and the topics. A topic is a page of
//! Markdown. `nbs help TOPIC` prints it, too.
//!
//! Options:
//!   --topic           print the topic where a command has the same name
//!   --skill           print a page of Markdown that teaches an agent which call
//!                     and which wait to use when
//!   --json            print an object: commands, a list of objects: name,
//!                     summary, usage, options (name, value, default, help) and
//!                     exits; with COMMAND just its object; of a topic: name,
//!                     summary, text; of --skill: skill
//!
//! Example:
//!   nbs-ts help send

use crate::{
    applets::{
        self, find,
        ts::{self, VERBS},
    },
    cli::{self, Args},
    help::{texts::Text, topics},
    json::Object,
    outcome::{Failure, Result},
};

const SKILL: Text = Text::of("applets/ts/skill.md");

pub(crate) fn run(args: &mut Args) -> Result<()> {
    use lexopt::Arg::{Long, Value};
    let (mut wanted, mut skill, mut topic) = (None, false, false);
    while let Some(arg) = args.next()? {
        match arg {
            Long("skill") => skill = true,
            Long("topic") => topic = true,
            Value(word) if wanted.is_none() => wanted = Some(word),
            other => return Err(other.unexpected().into()),
        }
    }

    let Some(word) = wanted else {
        return match (skill, args.json()) {
            (true, true) => cli::print(Object::new().text("skill", SKILL.get()).line()),
            (true, false) => cli::print(SKILL.get()),
            (false, _) => ts::overview(args),
        };
    };
    if skill {
        return Err(Failure::bad_args("--skill teaches all of them, and takes no command".into()));
    }
    match (find(VERBS, &word), topics::find(&word)) {
        (Some(verb), _) if !topic => applets::help(Some(verb), args),
        (_, Some(topic)) => applets::help_on(topic, args),
        _ => {
            let what = if topic { "no topic" } else { "no command and no topic" };
            Err(Failure::bad_args(format!(
                "'{}' is {what} of nbs-ts; 'nbs-ts help' lists them",
                word.display()
            )))
        }
    }
}
