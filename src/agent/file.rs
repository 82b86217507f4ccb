//! Files that others may have written: read through one descriptor, without following a link.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;

/// Why a file was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A link, a directory, a device, or a file with more than one name.
    NotPlain,
    /// More bytes than the bound.
    TooLong,
    /// The system refused.
    Unreadable,
}

/// The bytes of a plain file of at most `most` bytes; none if there is no such file. What is judged is what is read: type,
/// names and size come from the descriptor, and a file that grows meanwhile is refused.
///
/// # Errors
/// [`Refused`].
pub fn read_bounded(path: &Path, most: u64) -> Result<Option<Vec<u8>>, Refused> {
    // Without O_NONBLOCK, opening a pipe would wait for its other end.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let descriptor = match open(path, flags, Mode::empty()) {
        Ok(descriptor) => descriptor,
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP | Errno::NXIO | Errno::ISDIR) => return Err(Refused::NotPlain),
        Err(_) => return Err(Refused::Unreadable),
    };
    let status = fstat(&descriptor).map_err(|_| Refused::Unreadable)?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile || status.st_nlink > 1 {
        return Err(Refused::NotPlain);
    }
    let size = u64::try_from(status.st_size).unwrap_or(u64::MAX);
    if size > most {
        return Err(Refused::TooLong);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).map_err(|_| Refused::TooLong)?);
    File::from(descriptor).take(most + 1).read_to_end(&mut bytes).map_err(|_| Refused::Unreadable)?;
    if bytes.len() as u64 > most { Err(Refused::TooLong) } else { Ok(Some(bytes)) }
}

#[cfg(test)]
mod tests {
    use super::{Refused, read_bounded};

    #[test]
    fn plain_bounded_files_alone_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("plain"), "four").unwrap();
        assert_eq!(read_bounded(&path("plain"), 4), Ok(Some(b"four".to_vec())));
        assert_eq!(read_bounded(&path("plain"), 3), Err(Refused::TooLong));
        assert_eq!(read_bounded(&path("absent"), 4), Ok(None));
        std::os::unix::fs::symlink(path("plain"), path("link")).unwrap();
        assert_eq!(read_bounded(&path("link"), 4), Err(Refused::NotPlain));
        std::os::unix::fs::symlink(path("absent"), path("dangling")).unwrap();
        assert_eq!(read_bounded(&path("dangling"), 4), Err(Refused::NotPlain));
        assert_eq!(read_bounded(folder.path(), 4), Err(Refused::NotPlain));
        assert_eq!(read_bounded("/dev/zero".as_ref(), 4), Err(Refused::NotPlain));
        rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe"), 0o600.into()).unwrap();
        assert_eq!(read_bounded(&path("pipe"), 4), Err(Refused::NotPlain));
        std::fs::hard_link(path("plain"), path("second")).unwrap();
        assert_eq!(read_bounded(&path("plain"), 4), Err(Refused::NotPlain));
        assert_eq!(read_bounded(&path("plain").join("below"), 4), Err(Refused::Unreadable));
    }
}
