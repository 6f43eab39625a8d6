//! Lists whose memory outlives what they borrow.

/// An empty list in the memory of another one, whose elements are as large: lists of operands are made for every run, and a
/// run that is made again and again takes no memory for them.
pub fn reuse<A, B>(mut list: Vec<A>) -> Vec<B> {
    list.clear();
    // The standard library collects in place what has as many bytes and the same alignment.
    list.into_iter().map(|_| unreachable!("the list is empty")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_stays() {
        let list: Vec<&[u8]> = Vec::with_capacity(100);
        let (place, room) = (list.as_ptr().addr(), list.capacity());
        let bytes = [1u8, 2];
        let mut list: Vec<&mut [u8]> = reuse(list);
        assert_eq!((list.as_ptr().addr(), list.capacity(), list.len()), (place, room, 0));
        let mut own = bytes;
        list.push(&mut own);
        let list: Vec<&[u8]> = reuse(list);
        assert_eq!((list.as_ptr().addr(), list.capacity(), list.len()), (place, room, 0));
    }
}
