//! Carries the output of a program on one machine to the input of one on another.

use crate::{
    machine::{
        call::{Came, End, RemoteCall},
        call_stream::{AT_ONCE, print_errors},
        frames::Stream,
        outbox::Outbox,
    },
    outcome::{Result, Trying},
    sys::{deadline::Deadline, poll::PollSet},
};

/// Runs until both have ended, or the second has failed; returns whether both have succeeded. `passed` is
/// called with the number of bytes that were passed on.
pub(crate) fn pump(mut from: RemoteCall, mut to: RemoteCall, mut passed: impl FnMut(usize)) -> Result<bool> {
    let mut pending = Outbox::default();
    let (mut sent, mut received) = (None, false);
    loop {
        let came = if sent.is_none() { from.drive() } else { Vec::new() };
        for came in came {
            match came {
                Came::Stdout(bytes) => pending.give(bytes),
                Came::Stderr(bytes) => print_errors(&mut from, &bytes),
                Came::Ended(End::Exit(code)) => sent = Some(code),
                Came::Ended(End::Lost(failure)) => return Err(failure),
            }
        }
        // The second may have read the end of the stream. Only the first knows whether it sent everything.
        if let (true, Some(code)) = (received, sent) {
            return Ok(code == 0);
        }
        while (received || to.wants_stdin()) && !pending.is_empty() {
            let count = pending.len().min(AT_ONCE);
            if !received {
                to.stdin().push(&pending.rest()[..count]);
                passed(count);
            }
            pending.take(count);
            from.take(Stream::Stdout, count);
        }
        if sent.is_some() && pending.is_empty() {
            to.end_stdin();
        }
        let came = if received { Vec::new() } else { to.drive() };
        for came in came {
            match came {
                Came::Stdout(bytes) => to.take(Stream::Stdout, bytes.len()),
                Came::Stderr(bytes) => print_errors(&mut to, &bytes),
                Came::Ended(End::Exit(0)) => received = true,
                Came::Ended(End::Exit(_)) => return Ok(false),
                Came::Ended(End::Lost(failure)) => return Err(failure),
            }
        }
        if received && sent.is_some() || to.wants_stdin() && !pending.is_empty() {
            continue;
        }
        let mut poll_set = PollSet::new();
        let mut deadline = Deadline::NEVER;
        for (call, has_ended) in [(&from, sent.is_some()), (&to, received)] {
            if !has_ended {
                call.watch(&mut poll_set, ());
                deadline = deadline.min(call.deadline());
            }
        }
        poll_set.wait(deadline).trying("wait for the other machine")?;
    }
}
