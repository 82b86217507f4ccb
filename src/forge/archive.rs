//! Files out of an artifact's ZIP archive: stored and deflated entries, one by one and within bounds. No archive is
//! unpacked to disk, so a name in it is compared and leads nowhere.

use crate::protocol::fault::ensure;
use crate::protocol::{Code, Fault};

const END: [u8; 4] = *b"PK\x05\x06";
const DIRECTORY: [u8; 4] = *b"PK\x01\x02";
const LOCAL: [u8; 4] = *b"PK\x03\x04";
const END_BYTES: usize = 22;
const DIRECTORY_BYTES: usize = 46;
const LOCAL_BYTES: usize = 30;
/// Longest comment at the end of an archive.
const MAX_COMMENT: usize = 65_535;
/// Type bits of a Unix mode, and what they are for a plain file.
const TYPE_BITS: u32 = 0o170_000;
const PLAIN: u32 = 0o100_000;
/// Bit of an entry that is encrypted.
const ENCRYPTED: u16 = 1;

fn defective() -> Fault {
    Fault::new(Code::CodecInvalid, "the artifact is no readable ZIP archive")
}

fn short(bytes: &[u8], at: usize) -> Result<u16, Fault> {
    let pair = bytes.get(at..at + 2).ok_or_else(defective)?;
    Ok(u16::from_le_bytes([pair[0], pair[1]]))
}

fn long(bytes: &[u8], at: usize) -> Result<u32, Fault> {
    Ok(u32::from(short(bytes, at)?) | u32::from(short(bytes, at + 2)?) << 16)
}

/// One file of an archive.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    archive: &'a [u8],
    name: &'a [u8],
    flags: u16,
    method: u16,
    crc: u32,
    packed: usize,
    size: u64,
    /// Unix mode, 0 where none was stored.
    mode: u32,
    local: usize,
}

/// The entries of an archive, as its directory lists them.
///
/// # Errors
/// `codec_invalid` for anything that is no such archive, archives of the 64-bit form included.
pub fn entries(archive: &[u8]) -> Result<Vec<Entry<'_>>, Fault> {
    let last = archive.len().checked_sub(END_BYTES).ok_or_else(defective)?;
    let first = last.saturating_sub(MAX_COMMENT);
    let is_end = |at: &usize| {
        archive[*at..].starts_with(&END)
            && short(archive, at + 20).is_ok_and(|comment| at + END_BYTES + usize::from(comment) == archive.len())
    };
    let end = (first..=last).rev().find(is_end).ok_or_else(defective)?;
    let count = short(archive, end + 10)?;
    let mut at = long(archive, end + 16)? as usize;
    let mut found = Vec::new();
    for _ in 0..count {
        let header = archive.get(at..end).filter(|header| header.starts_with(&DIRECTORY)).ok_or_else(defective)?;
        let lengths = [short(header, 28)?, short(header, 30)?, short(header, 32)?].map(usize::from);
        let name = header.get(DIRECTORY_BYTES..DIRECTORY_BYTES + lengths[0]).ok_or_else(defective)?;
        found.push(Entry {
            archive,
            name,
            flags: short(header, 8)?,
            method: short(header, 10)?,
            crc: long(header, 16)?,
            packed: long(header, 20)? as usize,
            size: u64::from(long(header, 24)?),
            mode: long(header, 38)? >> 16,
            local: long(header, 42)? as usize,
        });
        at += DIRECTORY_BYTES + lengths.iter().sum::<usize>();
    }
    Ok(found)
}

impl<'a> Entry<'a> {
    /// Its name without the folders before it.
    #[must_use]
    pub fn base_name(&self) -> &'a [u8] {
        self.name.rsplit(|byte| *byte == b'/').next().unwrap_or(self.name)
    }

    /// Bytes of its content, as the archive says.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Reads its content, of at most `most` bytes.
    ///
    /// # Errors
    /// `codec_invalid` for an entry that is no plain file, is encrypted, is packed in another way, has a name that leads out
    /// of a folder, or does not hold what the directory says; `resource_limit` for more than `most` bytes.
    pub fn read(&self, most: u64) -> Result<Vec<u8>, Fault> {
        let plain = matches!(self.mode & TYPE_BITS, 0 | PLAIN) && self.flags & ENCRYPTED == 0;
        ensure!(plain && self.is_safely_named(), CodecInvalid, "an entry of the artifact is no plain file");
        ensure!(self.size <= most, ResourceLimit, "the artifact's content is longer than its bound");
        let header =
            self.archive.get(self.local..).filter(|header| header.starts_with(&LOCAL)).ok_or_else(defective)?;
        let lengths = [short(header, 26)?, short(header, 28)?].map(usize::from);
        let named = header.get(LOCAL_BYTES..LOCAL_BYTES + lengths[0]).ok_or_else(defective)?;
        ensure!(named == self.name, CodecInvalid, "an entry of the artifact has two names");
        let start = LOCAL_BYTES + lengths[0] + lengths[1];
        let packed = header.get(start..start + self.packed).ok_or_else(defective)?;
        let size = usize::try_from(self.size).map_err(|_| defective())?;
        let content = match self.method {
            0 => packed.to_vec(),
            8 => miniz_oxide::inflate::decompress_to_vec_with_limit(packed, size).map_err(|_| defective())?,
            _ => return Err(defective()),
        };
        ensure!(
            content.len() == size && crc32(&content) == self.crc,
            CodecInvalid,
            "an entry of the artifact does not hold what its directory says"
        );
        Ok(content)
    }

    /// True for a relative path that climbs nowhere.
    fn is_safely_named(&self) -> bool {
        let climbs = self.name.split(|byte| *byte == b'/').any(|part| matches!(part, b"" | b"." | b".."));
        !climbs && !self.name.iter().any(|byte| matches!(byte, b'\\' | b':' | 0..0x20 | 0x7f))
    }
}

/// The checksum of ZIP archives.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let mut value = byte as u32;
            let mut bit = 0;
            while bit < 8 {
                value = if value & 1 == 1 { 0xedb8_8320 ^ (value >> 1) } else { value >> 1 };
                bit += 1;
            }
            table[byte] = value;
            byte += 1;
        }
        table
    };
    !bytes.iter().fold(!0, |sum, byte| TABLE[((sum ^ u32::from(*byte)) & 0xff) as usize] ^ (sum >> 8))
}

#[cfg(test)]
mod tests {
    use super::crc32;

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }
}
