//! The memory allocator of the program.

use std::{
    alloc::{GlobalAlloc, Layout},
    sync::Mutex,
};

use dlmalloc::Dlmalloc;

/// musl's allocator maps, and unmaps, a page or more for each size that is requested: that was half of the
/// cost of a call besides the start of a process. The lock that the crate brings is one of pthreads, which
/// takes twice as long as this one.
pub(crate) struct Allocator(Mutex<Dlmalloc>);

impl Allocator {
    pub(crate) const fn new() -> Allocator {
        Allocator(Mutex::new(Dlmalloc::new()))
    }
}

macro_rules! locked {
    ($self:ident, $work:ident($($argument:expr),*)) => {
        match $self.0.lock() {
            // SAFETY: the caller keeps the rules of `GlobalAlloc`, which are those of dlmalloc.
            Ok(mut allocator) => unsafe { allocator.$work($($argument),*) },
            // Nothing panics while it is locked.
            Err(_) => std::process::abort(),
        }
    };
}

#[expect(unsafe_code, reason = "an allocator is an unsafe trait")]
// SAFETY: dlmalloc keeps the rules of the trait, and one thread at a time is in it.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        locked!(self, malloc(layout.size(), layout.align()))
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        locked!(self, free(at, layout.size(), layout.align()))
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        locked!(self, calloc(layout.size(), layout.align()))
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        locked!(self, realloc(at, layout.size(), layout.align(), size))
    }
}
