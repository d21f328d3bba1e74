//! Open files passed over a Unix socket (unix(7), SCM_RIGHTS).
//!
//! Received descriptors are close-on-exec from the start. A message that lost descriptors on its way (we are
//! at our limit of open files, or there were more than we accept) is an error, and those that did arrive are
//! closed.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

/// How many descriptors one message may carry.
pub(crate) const MOST: usize = 4;

/// Sends all of `bytes`, of which the first carries the descriptors. To be used
/// where they surely fit into the socket: less than all is an error.
pub(crate) fn send(stream: &UnixStream, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    loop {
        match rustix::net::sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL) {
            Ok(count) if count == bytes.len() => return Ok(()),
            Ok(_) => return Err(io::ErrorKind::WriteZero.into()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Receives some bytes, and the descriptors that came with them.
pub(crate) fn receive(stream: &UnixStream, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message =
        rustix::net::recvmsg(stream, &mut [IoSliceMut::new(buffer)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptors = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(came) = part {
            descriptors.extend(came);
        }
    }
    if message.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::other("open files were lost on the way; is the limit of open files too low?"));
    }
    Ok((message.bytes, descriptors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs::File,
        io::{Read, Write},
        os::fd::AsFd,
    };

    #[test]
    fn descriptors_arrive_in_order_and_close_on_exec() {
        for count in 0..=MOST {
            let (here, there) = UnixStream::pair().unwrap();
            let pipes: Vec<_> = (0..count).map(|_| io::pipe().unwrap()).collect();
            let ends: Vec<BorrowedFd<'_>> = pipes.iter().map(|(reader, _)| reader.as_fd()).collect();
            send(&here, b"Fx", &ends).unwrap();
            let mut buffer = [0; 8];
            let (bytes, came) = receive(&there, &mut buffer).unwrap();
            assert_eq!((&buffer[..bytes], came.len()), (&b"Fx"[..], count));
            for (index, (descriptor, (_, writer))) in came.into_iter().zip(&pipes).enumerate() {
                assert!(rustix::io::fcntl_getfd(&descriptor).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
                (&mut &*writer).write_all(&[index as u8]).unwrap();
                let mut byte = [0];
                File::from(descriptor).read_exact(&mut byte).unwrap();
                assert_eq!(byte, [index as u8]);
            }
        }
    }

    #[test]
    fn a_message_with_more_than_we_take_is_an_error_and_leaks_nothing() {
        let (here, there) = UnixStream::pair().unwrap();
        let (reader, writer) = io::pipe().unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST + 3))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let many = [writer.as_fd(); MOST + 3];
        assert!(control.push(SendAncillaryMessage::ScmRights(&many)));
        rustix::net::sendmsg(&here, &[IoSlice::new(b"F")], &mut control, SendFlags::empty()).unwrap();
        assert!(receive(&there, &mut [0; 8]).is_err());
        drop(writer);
        // No process has the writing end now, so this is the end of file.
        assert_eq!((&mut &reader).read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn a_peer_that_has_gone_is_an_error_and_no_signal() {
        let (here, there) = UnixStream::pair().unwrap();
        // Closing it is not enough: children of a concurrent test have it open, too, for a moment.
        there.shutdown(std::net::Shutdown::Both).unwrap();
        assert_eq!(send(&here, b"F", &[]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
