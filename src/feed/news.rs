//! The events of a feed.

use crate::session::{ActivityView, Address, Name};

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
