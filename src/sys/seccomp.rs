//! A filter of system calls (seccomp(2)), for those that Landlock does not cover.
//!
//! We write it by hand: the crates that make such filters let calls of the x32 ABI pass, whose numbers none
//! of their rules names. Ours begins with the architecture and that ABI. Calls of another one, such as those
//! of 32 bits (`int 0x80`), do not exist for the program.
//!
//! A filter sees numbers, never data behind a pointer: not the address of a connect(2), nor of a sendmsg(2),
//! nor the flags of clone3(2). So a call that may have forbidden data is refused as a whole. If it fails with
//! ENOSYS, programs fall back to an older call that we can filter.

use std::io;

use libc::{EACCES, ENOSYS, EPERM, c_long};
use rustix::io::Errno;

/// The sockets that a program may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sockets {
    All,
    /// Pairs, which lead to no other process.
    Pairs,
    /// And those for TCP connections, whose ports Landlock restricts.
    Tcp,
}

pub(crate) struct Filter(Vec<libc::sock_filter>);

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// The first number of the x32 ABI. On other architectures no call has such a number.
const X32: u32 = 0x4000_0000;

/// Calls that could undo a confinement, read the memory of processes outside, or exchange data with them
/// without a file: the kernel's keys, modules, mounts, namespaces, queues, and work that it does for us.
const REFUSED: [(c_long, i32); 41] = [
    (libc::SYS_io_uring_setup, ENOSYS),
    (libc::SYS_io_uring_enter, ENOSYS),
    (libc::SYS_io_uring_register, ENOSYS),
    (libc::SYS_clone3, ENOSYS),
    (libc::SYS_userfaultfd, EPERM),
    (libc::SYS_perf_event_open, EACCES),
    (libc::SYS_bpf, EPERM),
    (libc::SYS_keyctl, EPERM),
    (libc::SYS_add_key, EPERM),
    (libc::SYS_request_key, EPERM),
    (libc::SYS_mount, EPERM),
    (libc::SYS_umount2, EPERM),
    (libc::SYS_pivot_root, EPERM),
    (libc::SYS_move_mount, EPERM),
    (libc::SYS_open_tree, EPERM),
    (libc::SYS_fsopen, EPERM),
    (libc::SYS_fsmount, EPERM),
    (libc::SYS_fsconfig, EPERM),
    (libc::SYS_fspick, EPERM),
    (libc::SYS_mount_setattr, EPERM),
    (libc::SYS_setns, EPERM),
    (libc::SYS_chroot, EPERM),
    (libc::SYS_init_module, EPERM),
    (libc::SYS_finit_module, EPERM),
    (libc::SYS_delete_module, EPERM),
    (libc::SYS_kexec_load, EPERM),
    (libc::SYS_reboot, EPERM),
    (libc::SYS_swapon, EPERM),
    (libc::SYS_swapoff, EPERM),
    (libc::SYS_acct, EPERM),
    (libc::SYS_quotactl, EPERM),
    (libc::SYS_syslog, EPERM),
    (libc::SYS_open_by_handle_at, EPERM),
    (libc::SYS_fanotify_init, EPERM),
    (libc::SYS_shmget, EPERM),
    (libc::SYS_shmat, EPERM),
    (libc::SYS_msgget, EPERM),
    (libc::SYS_semget, EPERM),
    (libc::SYS_mq_open, EPERM),
    (libc::SYS_pidfd_getfd, EPERM),
    (libc::SYS_process_madvise, EPERM),
];

/// All but CLONE_NEWTIME, which is not a flag of clone(2).
const NAMESPACES: u32 = 0x7e02_0000;
const NEW_TIME: u32 = 0x80;

/// Connects by sending.
const FAST_OPEN: u32 = 0x2000_0000;

/// A condition on an argument, of which we see the lower half: all that the kernel uses of an `int`.
enum Test {
    /// It is that number, as far as it is in the mask.
    Is(usize, u32, u32),
    /// It has one of the bits.
    Has(usize, u32),
}

use Test::{Has, Is};

pub(crate) fn filter(sockets: Sockets) -> Filter {
    const SOCK_TYPE: u32 = 0xf;
    const ALL: u32 = u32::MAX;
    let mut filter = Filter(Vec::new());
    filter.load(ARCHITECTURE_AT);
    filter.unless(JEQ, ARCHITECTURE, refused(ENOSYS));
    filter.load(NUMBER_AT);
    filter.when(JGE, X32, refused(ENOSYS));
    for (call, error) in REFUSED {
        filter.when(JEQ, call as u32, refused(error));
    }
    for (call, argument, namespaces) in
        [(libc::SYS_clone, 0, NAMESPACES), (libc::SYS_unshare, 0, NAMESPACES | NEW_TIME)]
    {
        filter.rule(call, &[Has(argument, namespaces)], refused(EPERM));
    }
    // Both type into a terminal.
    for request in [libc::TIOCSTI, libc::TIOCLINUX] {
        filter.rule(libc::SYS_ioctl, &[Is(1, ALL, request as u32)], refused(EPERM));
    }
    // Limits of other processes.
    filter.rule(libc::SYS_prlimit64, &[Has(0, ALL)], refused(EPERM));
    if sockets != Sockets::All {
        if sockets == Sockets::Tcp {
            for family in [libc::AF_INET, libc::AF_INET6] {
                for protocol in [0, libc::IPPROTO_TCP] {
                    let tests = [
                        Is(0, ALL, family as u32),
                        Is(1, SOCK_TYPE, libc::SOCK_STREAM as u32),
                        Is(2, ALL, protocol as u32),
                    ];
                    filter.rule(libc::SYS_socket, &tests, ALLOWED);
                }
            }
        }
        filter.when(JEQ, libc::SYS_socket as u32, refused(EACCES));
        // A pair of datagram sockets can send to any address.
        for kind in [libc::SOCK_STREAM, libc::SOCK_SEQPACKET] {
            let tests = [Is(0, ALL, libc::AF_UNIX as u32), Is(1, SOCK_TYPE, kind as u32)];
            filter.rule(libc::SYS_socketpair, &tests, ALLOWED);
        }
        filter.when(JEQ, libc::SYS_socketpair as u32, refused(EACCES));
        // It takes a port without bind(2), which Landlock does not see.
        filter.when(JEQ, libc::SYS_listen as u32, refused(EACCES));
        for (call, flags) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
            filter.rule(call, &[Has(flags, FAST_OPEN)], refused(EACCES));
        }
        // TCP_ULP makes a socket of another kind of one for TCP (SMC).
        let tests = [Is(1, ALL, libc::IPPROTO_TCP as u32), Is(2, ALL, 31)];
        filter.rule(libc::SYS_setsockopt, &tests, refused(EPERM));
    }
    filter.end(ALLOWED);
    filter
}

const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JEQ: u16 = 0x15;
const JGE: u16 = 0x35;
const JSET: u16 = 0x45;
const RETURN: u16 = 0x06;

const ALLOWED: u32 = 0x7fff_0000;

fn refused(error: i32) -> u32 {
    0x0005_0000 | error as u32
}

impl Filter {
    fn push(&mut self, code: u16, yes: u8, no: u8, k: u32) {
        self.0.push(libc::sock_filter { code, jt: yes, jf: no, k });
    }

    fn load(&mut self, at: u32) {
        self.push(LOAD, 0, 0, at);
    }

    fn end(&mut self, with: u32) {
        self.push(RETURN, 0, 0, with);
    }

    fn when(&mut self, jump: u16, value: u32, with: u32) {
        self.push(jump, 0, 1, value);
        self.end(with);
    }

    fn unless(&mut self, jump: u16, value: u32, with: u32) {
        self.push(jump, 1, 0, value);
        self.end(with);
    }

    /// The end of a call whose arguments meet all conditions. The number is loaded before and after.
    fn rule(&mut self, call: c_long, tests: &[Test], with: u32) {
        let length = |test: &Test| if matches!(test, Is(..)) { 3 } else { 2 };
        // The end, and the number.
        let mut left = tests.iter().map(length).sum::<u8>() + 1;
        self.push(JEQ, 0, left + 1, call as u32);
        for test in tests {
            left -= length(test);
            match *test {
                Is(argument, mask, value) => {
                    self.load(low_half(argument));
                    self.push(AND, 0, 0, mask);
                    self.push(JEQ, 0, left, value);
                }
                Has(argument, bits) => {
                    self.load(low_half(argument));
                    self.push(JSET, 0, left, bits);
                }
            }
        }
        self.end(with);
        self.load(NUMBER_AT);
    }
}

/// The offset of an argument in the data of a filter (seccomp(2)). Both architectures have the lower half
/// first.
fn low_half(argument: usize) -> u32 {
    16 + 8 * argument as u32
}

/// Why there can be no filter, if there can be none.
pub(crate) fn check() -> io::Result<()> {
    match std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail") {
        Ok(actions) if actions.split_whitespace().any(|action| action == "errno") => Ok(()),
        _ => Err(io::Error::other("the kernel has no seccomp filters (CONFIG_SECCOMP_FILTER)")),
    }
}

/// Binds this thread, and all that it starts, to a filter. It must have no_new_privs.
pub(crate) fn install(filter: &Filter) -> io::Result<()> {
    const SET_MODE_FILTER: libc::c_ulong = 1;
    const NO_FLAGS: libc::c_ulong = 0;
    let length = filter.0.len().try_into().map_err(|_| Errno::INVAL)?;
    let program = libc::sock_fprog { len: length, filter: filter.0.as_ptr().cast_mut() };
    #[expect(unsafe_code, reason = "rustix 1.1 cannot install a filter")]
    // SAFETY: the kernel copies the program, whose instructions live as long as `filter`, and changes
    // nothing of it.
    let installed =
        unsafe { libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, NO_FLAGS, &raw const program) };
    if installed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The filter's result for a call, as the kernel computes it.
    fn verdict(filter: &Filter, architecture: u32, number: c_long, arguments: &[u32]) -> u32 {
        let (mut at, mut value) = (0, 0);
        loop {
            let libc::sock_filter { code, jt, jf, k } = filter.0[at];
            let jump = |is_met: bool| usize::from(if is_met { jt } else { jf });
            at += 1;
            match code {
                LOAD if k == NUMBER_AT => value = number as u32,
                LOAD if k == ARCHITECTURE_AT => value = architecture,
                LOAD => value = arguments.get((k as usize - 16) / 8).copied().unwrap_or(0),
                AND => value &= k,
                JEQ => at += jump(value == k),
                JGE => at += jump(value >= k),
                JSET => at += jump(value & k != 0),
                _ => return k,
            }
        }
    }

    #[test]
    fn a_filter_refuses_what_leads_outside() {
        let (stream, datagram, cloexec) = (1, 2, 0o2_000_000);
        let no = refused(EACCES);
        let cases = [
            (libc::SYS_read, &[][..], [ALLOWED; 3]),
            (libc::SYS_io_uring_setup, &[], [refused(ENOSYS); 3]),
            (libc::SYS_process_madvise, &[], [refused(EPERM); 3]),
            (libc::SYS_clone, &[17], [ALLOWED; 3]),
            (libc::SYS_clone, &[0x1000_0011], [refused(EPERM); 3]),
            (libc::SYS_unshare, &[0x80], [refused(EPERM); 3]),
            (libc::SYS_unshare, &[0x400], [ALLOWED; 3]),
            (libc::SYS_ioctl, &[0, 0x5413], [ALLOWED; 3]),
            (libc::SYS_ioctl, &[0, 0x5412], [refused(EPERM); 3]),
            (libc::SYS_prlimit64, &[0, 7], [ALLOWED; 3]),
            (libc::SYS_prlimit64, &[9, 7], [refused(EPERM); 3]),
            (libc::SYS_socket, &[1, stream, 0], [ALLOWED, no, no]),
            (libc::SYS_socket, &[2, stream | cloexec, 6], [ALLOWED, no, ALLOWED]),
            (libc::SYS_socket, &[10, stream, 0], [ALLOWED, no, ALLOWED]),
            (libc::SYS_socket, &[2, stream, 262], [ALLOWED, no, no]),
            (libc::SYS_socket, &[2, datagram, 0], [ALLOWED, no, no]),
            (libc::SYS_socket, &[16, 3, 0], [ALLOWED, no, no]),
            (libc::SYS_socket, &[40, stream, 0], [ALLOWED, no, no]),
            (libc::SYS_socketpair, &[1, stream | cloexec], [ALLOWED; 3]),
            (libc::SYS_socketpair, &[1, 5], [ALLOWED; 3]),
            (libc::SYS_socketpair, &[1, datagram], [ALLOWED, no, no]),
            (libc::SYS_listen, &[3, 1], [ALLOWED, no, no]),
            (libc::SYS_sendto, &[3, 0, 0, 0x4000], [ALLOWED; 3]),
            (libc::SYS_sendto, &[3, 0, 0, FAST_OPEN], [ALLOWED, no, no]),
            (libc::SYS_sendmsg, &[3, 0, FAST_OPEN], [ALLOWED, no, no]),
            (libc::SYS_setsockopt, &[3, 6, 31], [ALLOWED, refused(EPERM), refused(EPERM)]),
            (libc::SYS_setsockopt, &[3, 6, 1], [ALLOWED; 3]),
        ];
        let filters = [Sockets::All, Sockets::Pairs, Sockets::Tcp].map(filter);
        for (call, arguments, expected) in cases {
            for (filter, expected) in filters.iter().zip(expected) {
                assert_eq!(verdict(filter, ARCHITECTURE, call, arguments), expected, "{call} {arguments:?}");
                assert_eq!(verdict(filter, ARCHITECTURE + 1, call, arguments), refused(ENOSYS));
                let x32 = call | c_long::from(X32);
                assert_eq!(verdict(filter, ARCHITECTURE, x32, arguments), refused(ENOSYS));
            }
        }
    }
}
