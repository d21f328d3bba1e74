//! Ports of other machines that a page has asked for. A call of ours forwards each, as long as we run.

use crate::{
    json::Object,
    machine::name::MachineName,
    numbers::number,
    page::{collected_call::CollectedCall, far::Done, http::UNAVAILABLE},
    sys::poll::PollSet,
};

/// The most that are kept.
const MOST: usize = 32;

#[derive(Default)]
pub(crate) struct Forwards(Vec<Forward>);

struct Forward {
    machine: MachineName,
    port: u16,
    call: CollectedCall,
    /// The port here; `None` until it listens.
    here: Option<u16>,
    /// The requests that wait for that.
    waiting: Vec<u64>,
}

impl Forwards {
    /// The answer to a request with that number for a port of a machine; `None` if it comes later.
    pub(crate) fn ask(&mut self, request: u64, machine: &MachineName, port: u16) -> Option<Done> {
        if let Some(known) = self.0.iter_mut().find(|one| one.machine == *machine && one.port == port) {
            known.waiting.push(request);
            return known.answer().inspect(|_| known.waiting.clear());
        }
        if self.0.len() >= MOST {
            return Some(Err(UNAVAILABLE));
        }
        let words = [machine.as_str(), &format!("0:localhost:{port}")];
        let Ok(call) = CollectedCall::start("forward", &words) else { return Some(Err(UNAVAILABLE)) };
        self.0.push(Forward { machine: machine.clone(), port, call, here: None, waiting: vec![request] });
        None
    }

    pub(crate) fn watch<'a, Event: Copy>(&'a self, poll_set: &mut PollSet<'a, Event>, event: Event) {
        self.0.iter().for_each(|forward| forward.call.watch(poll_set, event));
    }

    /// The answers to the requests that have waited.
    pub(crate) fn drive(&mut self) -> Vec<(u64, Done)> {
        let mut answers = Vec::new();
        self.0.retain_mut(|forward| {
            let goes_on = forward.drive();
            let answer = forward.answer().or((!goes_on).then(|| Ok(Some(forward.call.failure()))));
            if let Some(answer) = answer {
                answers.extend(forward.waiting.drain(..).map(|request| (request, answer.clone())));
            }
            goes_on
        });
        answers
    }
}

impl Forward {
    /// Does its call go on?
    fn drive(&mut self) -> bool {
        let goes_on = self.call.drive().is_none();
        if self.here.is_none() {
            self.here = port_in(&self.call.output);
        }
        goes_on
    }

    fn answer(&self) -> Option<Done> {
        self.here.map(|port| Ok(Some(Object::new().number("port", port).line())))
    }
}

/// The port in the line that the call prints when it listens.
fn port_in(output: &[u8]) -> Option<u16> {
    let line = output.strip_prefix(b"forward: 127.0.0.1:")?;
    number(&line[..memchr::memchr(b' ', line)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_read_once_its_line_has_come() {
        assert_eq!(port_in(b"forward: 127.0.0.1:4080 -> box:80\n"), Some(4_080));
        assert_eq!(port_in(b"forward: 127.0.0.1:40"), None);
        assert_eq!(port_in(b"other 127.0.0.1:4080 -> box:80\n"), None);
    }
}
