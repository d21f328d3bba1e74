//! The events of a feed.

use crate::{
    machine::{name::MachineName, renewed_call::CallNews},
    session::{ActivityView, Address, Name, StateDir, removed},
    terminal::text,
};

/// An event.
pub(crate) enum FeedNews {
    /// A session's state: its relay's report (for the rest see [`ActivityView::look`]), or the full state, if
    /// it is on another machine. For a live session here that we cannot follow, nothing.
    Told(Box<ActivityView>),
    Removed(Address, Option<Name>),
    /// A machine does not answer, and why. If `is_over`, what its sessions do is not known.
    Lost {
        machine: String,
        why: String,
        is_over: bool,
    },
}

impl FeedNews {
    /// What has become of the call to a machine, if that is an event.
    pub(super) fn of_call(machine: &MachineName, news: CallNews) -> Option<FeedNews> {
        let (why, is_over) = match news {
            CallNews::Heard => return None,
            CallNews::Missing(why) => (why, false),
            CallNews::Over { why, .. } => (why, true),
        };
        Some(FeedNews::Lost { machine: machine.to_string(), why: text::escaped(why.as_bytes()), is_over })
    }

    /// An event here with the full state of its session; `None` if that has been removed meanwhile.
    pub(crate) fn looked(self, state_dir: &StateDir) -> Option<FeedNews> {
        match self {
            FeedNews::Told(overview) => Some(FeedNews::Told(Box::new(state_dir.looked_at(*overview)?))),
            other => Some(other),
        }
    }

    /// The line of an event, as `list --json --follow` prints it.
    pub(crate) fn line(&self) -> Option<String> {
        match self {
            FeedNews::Told(overview) => Some(overview.json().line()),
            FeedNews::Removed(address, name) => Some(removed(address, name.as_ref()).line()),
            FeedNews::Lost { .. } => None,
        }
    }
}
