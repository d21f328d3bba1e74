//! The file of a program: its architecture, and whether it is complete.
//!
//! The kernel only says "Exec format error" about either. Source: elf(5).

use std::{
    borrow::Cow,
    fmt,
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

/// The fields of an ELF file's header that we use, and the file's size.
pub(crate) struct Program {
    /// As `uname -m` has it.
    architecture: Cow<'static, str>,
    /// How many bytes are there, and how many there should be.
    size: u64,
    whole: u64,
}

impl Program {
    /// `None` if it is not an ELF file.
    pub(crate) fn look(path: &Path) -> io::Result<Option<Program>> {
        // A FIFO would keep us.
        if !fs::metadata(path)?.is_file() {
            return Ok(None);
        }
        let mut file = File::open(path)?;
        let mut header = Vec::new();
        file.by_ref().take(64).read_to_end(&mut header)?;
        Ok(Program::parse(&header, file.metadata()?.len()))
    }

    fn parse(header: &[u8], size: u64) -> Option<Program> {
        if !header.starts_with(b"\x7fELF") {
            return None;
        }
        let short = |at: usize| Some(u16::from_le_bytes(header.get(at..at + 2)?.try_into().ok()?));
        let long = |at: usize| Some(u64::from_le_bytes(header.get(at..at + 8)?.try_into().ok()?));
        let architecture = match short(18) {
            Some(3) => "i386".into(),
            Some(40) => "arm".into(),
            Some(62) => "x86_64".into(),
            Some(183) => "aarch64".into(),
            Some(243) => "riscv64".into(),
            Some(other) => format!("machine {other}").into(),
            None => "an unknown architecture".into(),
        };
        // Linkers put the table of sections last. For a 32-bit file, or one cut within its header, we
        // only know that this much belongs to it.
        let sections = || long(40)?.checked_add(u64::from(short(58)?) * u64::from(short(60)?));
        let is_64_bit = header.get(4) == Some(&2);
        let whole = if is_64_bit { sections().unwrap_or(64) } else { 52 };
        Some(Program { architecture, size, whole })
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.size >= self.whole
    }

    pub(crate) fn is_for(&self, architecture: &str) -> bool {
        self.architecture == architecture
    }
}

impl fmt::Display for Program {
    fn fmt(&self, text: &mut fmt::Formatter) -> fmt::Result {
        let Program { architecture, size, whole } = self;
        if self.is_whole() {
            write!(text, "a program for {architecture}")
        } else {
            write!(text, "an incomplete copy of a program for {architecture}, {size} bytes of {whole}")
        }
    }
}
