//! Confinement: who is confined, by what, and what nbs does for a confined process.
//!
//! It knows sessions by their numbers only, so all rooms above `sys` may use it.

mod admission;
mod options;

pub(crate) use admission::{Admission, Denial, serves_us};
pub(crate) use options::{JailOptions, NO_ROOT, PROFILE_ENV};
