//! A loaded program: the verified file, its constants and the external data it may refer to.
use crate::loader::{DataLoader, NamedData, Part, load};
use crate::{Error, Method};
use sconce_format::pte::{self, HEAD_BYTES, Header};

/// A view of a program. Making one over bytes that were verified before costs nothing, so it is made per call.
#[derive(Clone, Copy)]
pub struct Program<'a> {
    file: pte::File<'a>,
    loader: &'a dyn DataLoader,
    external: &'a dyn NamedData,
    constants: &'a [u8],
    constants_at: u64,
}

impl<'a> Program<'a> {
    /// Reads and verifies a program.
    pub fn load(loader: &'a dyn DataLoader, external: &'a dyn NamedData) -> Result<Self, Error> {
        let size = loader.size();
        let head = load(loader, 0..size.min(HEAD_BYTES as u64), Part::Program)?;
        let header = Header::parse(head, size)?;
        let bytes = load(loader, 0..header.program_size, Part::Program)?;
        Self::with_file(pte::File::parse(bytes, header, size)?, loader, external)
    }

    /// The view again, over a loader whose program [`Program::load`] accepted with this header.
    pub fn reopen(header: Header, loader: &'a dyn DataLoader, external: &'a dyn NamedData) -> Result<Self, Error> {
        let bytes = load(loader, 0..header.program_size, Part::Program)?;
        Self::with_file(pte::File::reopen(bytes, header), loader, external)
    }

    fn with_file(file: pte::File<'a>, loader: &'a dyn DataLoader, external: &'a dyn NamedData) -> Result<Self, Error> {
        let segment = file.program().constant_segment().filter(|segment| segment.offsets().len() > 1);
        let range = segment.and_then(|segment| file.segment(segment.segment_index())).unwrap_or(0..0);
        let constants_at = range.start;
        let constants = load(loader, range, Part::Constant)?;
        Ok(Self { file, loader, external, constants, constants_at })
    }

    /// What [`Program::reopen`] needs.
    pub fn header(&self) -> Header {
        self.file.header()
    }

    /// The verified file.
    pub fn file(&self) -> pte::File<'a> {
        self.file
    }

    /// The program's bytes.
    pub fn loader(&self) -> &'a dyn DataLoader {
        self.loader
    }

    /// Where bytes of the FlatBuffers part are in the file.
    pub fn position(&self, bytes: &[u8]) -> Option<u64> {
        let part = self.loader.load(0, self.header().program_size, Part::Program)?;
        let start = bytes.as_ptr().addr().checked_sub(part.as_ptr().addr())?;
        let inside = start.checked_add(bytes.len()).is_some_and(|end| end <= part.len());
        u64::try_from(start).ok().filter(|_| inside)
    }

    /// Data from beside the program.
    pub fn external(&self) -> &'a dyn NamedData {
        self.external
    }

    /// The methods, in file order.
    pub fn methods(&self) -> impl ExactSizeIterator<Item = Method<'a>> + use<'a> {
        let program = *self;
        self.file.program().execution_plan().iter().map(move |plan| Method::new(program, plan))
    }

    /// The method of this name.
    pub fn method(&self, name: &str) -> Result<Method<'a>, Error> {
        self.file.plan(name).map(|plan| Method::new(*self, plan)).ok_or(Error::MethodNotFound)
    }

    /// Data by name, as delegates ask for it: external files first, then the program itself.
    pub fn named_data(&self, key: &str) -> Option<&'a [u8]> {
        if let Some(entry) = self.external.find(key) {
            return self.external.bytes(entry);
        }
        let range = self.file.named_data(key)?;
        load(self.loader, range, Part::Delegate).ok()
    }

    /// Says that a delegate needs the data of this name no longer.
    pub fn release_named_data(&self, key: &str) {
        match (self.external.find(key), self.file.named_data(key)) {
            (Some(entry), _) => self.external.release(entry),
            (None, Some(range)) => self.loader.release(range.start, range.end.saturating_sub(range.start)),
            (None, None) => {}
        }
    }

    /// Where constant `index` of `nbytes` starts in [`Program::constants`].
    pub(crate) fn constant_offset(&self, index: u32, nbytes: u64) -> Option<usize> {
        let range = self.file.constant(index, nbytes)?;
        usize::try_from(range.start.checked_sub(self.constants_at)?).ok()
    }

    /// The constant segment.
    pub(crate) fn constants(&self) -> &'a [u8] {
        self.constants
    }
}

impl core::fmt::Debug for Program<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Program").field("header", &self.header()).finish_non_exhaustive()
    }
}
