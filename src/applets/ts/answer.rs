//! answer - answer a program's question
//! Task: Do, 3
//!
//! Usage: nbs-ts answer [options] SESSION TEXT...
//!
//! Answers the question that `status --json` shows (`question`, `choices`), with
//! the keys that the program expects: a number, arrows and Enter, or a line. TEXT
//! is the number of a choice, its text or the start of it, or `yes` or `no` for
//! the first choice that says so. If the program expects a line, or a choice takes
//! any text, any other TEXT is typed. `answer` fails if there is no question, or
//! if it is still there afterwards. At a secret prompt, it types nothing; see
//! `send`.
//!
//! Options:
//!   --question-id=ID  fail if the question is not the one with this `question_id`
//!   --timeout=TIME    give up after TIME (default: 10)
//!   --json            print an object: handle, question_id, answer
//!
//! Example:
//!   nbs-ts wait "$h" --waiting && nbs-ts answer "$h" yes

use crate::{
    call::CommandLine,
    cli,
    json::Object,
    outcome::Result,
    session::{StateDir, answer},
    sys::deadline::Deadline,
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let (timeout, target) = (call.value("timeout", cli::time)?, call.session()?);
    let (id, text) = (call.optional("question-id", cli::text)?, call.text());

    let session = StateDir::open()?.session(&target)?.within(Deadline::after(timeout));
    session.check_input()?;
    let answered = answer(&session, text, id.as_deref(), timeout)?;
    let object = Object::new().text("handle", session.handle().as_str());
    call.print_json(object.text("question_id", &answered.question_id).bytes("answer", &answered.text))
}
