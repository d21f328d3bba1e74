//! The C library's own allocations, such as for reading a directory, by the allocator of the rest of the program.
//! musl's would take 9 KB of the file, and a few pages of memory for its first block.
//!
//! Before each block stand the size of its allocation and the block's offset in it, since free(3) is given only an
//! address.

use std::{
    alloc::{Layout, alloc, alloc_zeroed, dealloc},
    ptr,
};

/// The alignment of a block for any type of C, and the size of what is before it.
const ALIGNMENT: usize = 16;

/// Allocates a block; null if there is no memory for it. `with` is `alloc`, or `alloc_zeroed`.
fn block(size: usize, alignment: usize, with: unsafe fn(Layout) -> *mut u8) -> *mut u8 {
    let start = alignment.max(ALIGNMENT);
    let layout = size.checked_add(start).and_then(|whole| Layout::from_size_align(whole, start).ok());
    let Some(layout) = layout else { return ptr::null_mut() };
    // SAFETY: the layout has a size, and what is written lies between its start and the block's.
    unsafe {
        let whole = with(layout);
        if whole.is_null() {
            return whole;
        }
        let block = whole.add(start);
        block.cast::<[usize; 2]>().sub(1).write([layout.size(), start]);
        block
    }
}

#[cfg_attr(target_env = "musl", unsafe(no_mangle))]
extern "C" fn malloc(size: usize) -> *mut u8 {
    block(size, ALIGNMENT, alloc)
}

#[cfg_attr(target_env = "musl", unsafe(no_mangle))]
extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut u8 {
    block(size, alignment, alloc)
}

#[cfg_attr(target_env = "musl", unsafe(no_mangle))]
extern "C" fn calloc(count: usize, size: usize) -> *mut u8 {
    count.checked_mul(size).map_or(ptr::null_mut(), |size| block(size, ALIGNMENT, alloc_zeroed))
}

#[cfg_attr(target_env = "musl", unsafe(no_mangle))]
unsafe extern "C" fn realloc(old: *mut u8, size: usize) -> *mut u8 {
    let new = block(size, ALIGNMENT, alloc);
    if !new.is_null() && !old.is_null() {
        // SAFETY: both are blocks of at least the size that is copied, and the caller gives up the old one.
        unsafe {
            let [whole, start] = old.cast::<[usize; 2]>().sub(1).read();
            ptr::copy_nonoverlapping(old, new, size.min(whole - start));
            free(old);
        }
    }
    new
}

#[cfg_attr(target_env = "musl", unsafe(no_mangle))]
unsafe extern "C" fn free(block: *mut u8) {
    if !block.is_null() {
        // SAFETY: it has been allocated here, with this layout.
        unsafe {
            let [whole, start] = block.cast::<[usize; 2]>().sub(1).read();
            dealloc(block.sub(start), Layout::from_size_align_unchecked(whole, start));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_keeps_its_bytes_and_is_aligned() {
        for size in [0, 1, 15, 16, 4096, 100_000] {
            for alignment in [1, 16, 64, 4096] {
                // SAFETY: each block is used within its size, and freed once.
                unsafe {
                    let block = aligned_alloc(alignment, size);
                    assert_eq!(block.align_offset(alignment.max(ALIGNMENT)), 0);
                    block.write_bytes(b'x', size);
                    let larger = realloc(block, size + 1);
                    let bytes = std::slice::from_raw_parts(larger, size);
                    assert!(bytes.iter().all(|byte| *byte == b'x'));
                    let smaller = realloc(larger, size / 2);
                    let bytes = std::slice::from_raw_parts(smaller, size / 2);
                    assert!(bytes.iter().all(|byte| *byte == b'x'));
                    free(smaller);
                }
            }
        }
    }

    #[test]
    fn a_table_is_empty_and_one_that_is_too_large_is_refused() {
        // SAFETY: the block is used within its size, and freed once.
        unsafe {
            let block = calloc(10, 100);
            assert!(std::slice::from_raw_parts(block, 1000).iter().all(|byte| *byte == 0));
            free(block);
            free(ptr::null_mut());
            free(realloc(ptr::null_mut(), 10));
        }
        for (count, size) in [(usize::MAX, 2), (1, usize::MAX), (1, usize::MAX - 32)] {
            assert!(calloc(count, size).is_null());
        }
        assert!(malloc(usize::MAX).is_null() && aligned_alloc(48, 1).is_null());
    }
}
