//! What a feed tells.

use crate::session::{Address, Name, Overview};

/// What has become known.
pub(crate) enum FeedNews {
    /// What this one does: as far as its relay tells it (for the rest see [`Overview::look`]), or
    /// in full, if it is on another machine. Of a live one here that does not let us follow it,
    /// nothing.
    Told(Box<Overview>),
    Removed(Address, Option<Name>),
    /// A machine does not answer, and why. If `is_over`, what its sessions do is not known.
    Lost {
        machine: String,
        why: String,
        is_over: bool,
    },
}
