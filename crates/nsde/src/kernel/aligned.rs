//! Memory that begins at a cache line: a vector of 64 bytes that lies across two lines costs two accesses.

use bytemuck::{Pod, Zeroable, cast_slice, cast_slice_mut};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// Bytes of a cache line, and of the longest vector.
pub(crate) const LINE: usize = 64;

/// A cache line; arrays of them on the stack are room for panels.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
pub(crate) struct Line([u8; LINE]);

/// Whole lines of numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Aligned<T> {
    lines: Vec<Line>,
    of: PhantomData<T>,
}

impl<T: Pod> Aligned<T> {
    /// `len` zeros, or a few more, so that the last line is full.
    pub fn zeros(len: usize) -> Self {
        let lines = vec![Line::zeroed(); (len * size_of::<T>()).div_ceil(LINE)];
        Aligned { lines, of: PhantomData }
    }
}

impl<T: Pod> Deref for Aligned<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        cast_slice(&self.lines)
    }
}

impl<T: Pod> DerefMut for Aligned<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        cast_slice_mut(&mut self.lines)
    }
}

impl<'a, T: Pod> IntoIterator for &'a Aligned<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
