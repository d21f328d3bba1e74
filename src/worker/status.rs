//! The `## Status` block of a task file.
//!
//! The last block counts, since a skill may have one of its own as an example;
//! and of a field the last line in it, since an agent may add one below the old.
//! A code fence is text as any other.

use std::ops::Range;

/// The states that the monitor writes for a worker that it ended before the worker reported a state:
/// out of time, or ended by a request. These words do not end a worker that writes them itself.
pub(crate) const TIMED_OUT: &str = "timeout";
pub(crate) const ENDED: &str = "ended";

/// A field of the block, as in `State: running`, without blanks around it.
pub(crate) fn field<'a>(content: &'a [u8], name: &str) -> Option<&'a [u8]> {
    place(content, name).map(|place| &content[place])
}

/// The content with another value of a field, if it has that.
pub(crate) fn with(content: &[u8], name: &str, value: &str) -> Vec<u8> {
    let Some(Range { start, end }) = place(content, name) else { return content.to_vec() };
    let gap = if content[..start].ends_with(b":") { " " } else { "" };
    [&content[..start], gap.as_bytes(), value.as_bytes(), &content[end..]].concat()
}

/// The range of a field's value.
fn place(content: &[u8], name: &str) -> Option<Range<usize>> {
    let mut found = None;
    let mut inside = false;
    let mut begin = 0;
    for whole in content.split_inclusive(|byte| *byte == b'\n') {
        let line = whole.trim_ascii_end();
        if line.starts_with(b"## ") || line.starts_with(b"# ") {
            inside = line.eq_ignore_ascii_case(b"## Status");
            if inside {
                found = None;
            }
        } else if inside && let Some(value) = value(line.trim_ascii_start(), name) {
            // It is what the line ends with.
            let end = begin + line.len();
            found = Some(end - value.len()..end);
        }
        begin += whole.len();
    }
    found
}

fn value<'a>(line: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let (before, after) = line.split_at_checked(name.len())?;
    let value = after.strip_prefix(b":").filter(|_| before.eq_ignore_ascii_case(name.as_bytes()));
    value.map(<[u8]>::trim_ascii)
}

/// The state that the worker reports, in lower case; `None` if it reports none.
pub(crate) fn state(content: &[u8]) -> Option<String> {
    let state = field(content, "State").filter(|state| !state.is_empty())?;
    Some(String::from_utf8_lossy(&state.to_ascii_lowercase()).into_owned())
}

/// Is that state the last one: `Some(true)` where the task was done?
pub(crate) fn verdict(state: &str) -> Option<bool> {
    match state {
        "completed" | "done" => Some(true),
        "failed" | "escalated" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_read_as_people_write_it() {
        let cases: [(&str, Option<&str>); 14] = [
            ("## Status\n\nState: running\n", Some("running")),
            ("## Status\nState: Completed\nState", Some("completed")),
            ("## Status\r\n\r\nState: DONE \t\r\n", Some("done")),
            ("## status  \nstate:failed", Some("failed")),
            ("## Status\n  State:   escalated\n## Log\nState: running\n", Some("escalated")),
            ("## Status\nState: running\nState: done\n", Some("done")),
            ("## Status\nState:\n", None),
            ("## Status\nStates: done\nThe State: done\n", None),
            ("State: done\n", None),
            ("", None),
            ("### Status\nState: done\n", None),
            ("## Status\nState: done\n\n## Status\nState: running\n", Some("running")),
            ("```\n## Status\nState: done\n```\n## Task\nx\n## Status\n\nState: running", Some("running")),
            ("## Status\nState: done\n## Status\n", None),
        ];
        for (content, expected) in cases {
            assert_eq!(state(content.as_bytes()).as_deref(), expected, "{content:?}");
        }
        assert_eq!(state(b"\xff\n## Status\nState: d\xff\n").as_deref(), Some("d\u{fffd}"));
    }

    #[test]
    fn a_field_gets_another_value_and_nothing_else_changes() {
        let cases = [
            ("## Status\nState: running\nCompleted:\n", "State", "## Status\nState: x\nCompleted:\n"),
            (
                "## Status\nState: running\nCompleted:\n",
                "Completed",
                "## Status\nState: running\nCompleted: x\n",
            ),
            ("## Status\r\nstate:  a b \r\né", "State", "## Status\r\nstate:  x \r\né"),
            (
                "## Status\nState: a\n## Status\nState: b\nState: c",
                "State",
                "## Status\nState: a\n## Status\nState: b\nState: x",
            ),
            ("State: a\n## Status\n## Log\nState: b\n", "State", "State: a\n## Status\n## Log\nState: b\n"),
        ];
        for (content, name, expected) in cases {
            let changed = with(content.as_bytes(), name, "x");
            assert_eq!(String::from_utf8_lossy(&changed), expected, "{content:?}");
        }
    }

    #[test]
    fn four_states_are_final_and_nothing_like_them() {
        let verdicts = ["completed", "done", "failed", "escalated"].map(verdict);
        assert_eq!(verdicts, [Some(true), Some(true), Some(false), Some(false)]);
        for state in
            ["running", TIMED_OUT, ENDED, "done when tests pass", "not done", "complete", "undone", ""]
        {
            assert_eq!(verdict(state), None, "{state:?}");
        }
    }
}
