//! A Linux interface for the other modules.
//!
//! Nothing outside this module uses rustix, signal-hook or landlock. Its functions return
//! [`std::io::Result`], print nothing, and know nothing of sessions.

/// `as_fd!(Type, field)`: the descriptor of the type is that of the field.
macro_rules! as_fd {
    ($type:ty, $field:tt) => {
        impl std::os::fd::AsFd for $type {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                std::os::fd::AsFd::as_fd(&self.$field)
            }
        }
    };
}

pub(crate) mod allocator;
#[cfg(any(target_env = "musl", test))]
#[expect(unsafe_code, reason = "C passes addresses, and calls the functions by their names")]
mod c_allocator;
pub(crate) mod cgroup;
pub(crate) mod child;
pub(crate) mod clock;
pub(crate) mod confinement;
pub(crate) mod copies;
pub(crate) mod deadline;
pub(crate) mod fdpass;
pub(crate) mod files;
pub(crate) mod gate;
pub(crate) mod hard_limit;
pub(crate) mod host;
pub(crate) mod inherited;
pub(crate) mod links;
pub(crate) mod lock;
pub(crate) mod peers;
pub(crate) mod poll;
pub(crate) mod ports;
pub(crate) mod processes;
pub(crate) mod program;
pub(crate) mod pty;
pub(crate) mod random;
pub(crate) mod seccomp;
pub(crate) mod siblings;
pub(crate) mod signals;
pub(crate) mod socket;
pub(crate) mod spawn;
pub(crate) mod start;
pub(crate) mod stdio;
pub(crate) mod syncer;
pub(crate) mod term;
pub(crate) mod user;
mod user_manager;
pub(crate) mod watch;

pub(crate) use as_fd;
