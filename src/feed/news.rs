//! What a feed tells.

use crate::session::{ActivityView, Address, Name};

/// What has become known.
pub(crate) enum FeedNews {
    /// What this one does: as far as its relay tells it (for the rest see [`ActivityView::look`]), or
    /// in full, if it is on another machine. Of a live one here that does not let us follow it,
    /// nothing.
    Told(Box<ActivityView>),
    Removed(Address, Option<Name>),
    /// A machine does not answer, and why. If `is_over`, what its sessions do is not known.
    Lost {
        machine: String,
        why: String,
        is_over: bool,
    },
}
