//! What a Claim leaves for people to look at (jobs.md 9): its structured failures, in a folder of its own. These files are
//! no authority and no evidence, and the queue never reads them back.

use std::fs::{self, DirBuilder};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::protocol::assignment::{Assignment, Member};
use crate::protocol::json::Writer;
use crate::protocol::{Code, Digest, Fault, Wire as _};

use super::digest_of;
use super::partition::Rejected;

/// The folder of all Claims, below the base.
const CLAIMS: &str = "claims";
/// The file of structured failures.
pub const ERRORS_NAME: &str = "safe-output-errors.json";
/// Longest message of a failure, in bytes.
const MAX_MESSAGE_BYTES: usize = 1024;

/// Masks what must not be seen, in decoded text. A failure to do so is a failure of the export.
pub type Redact<'r> = &'r dyn Fn(&str) -> Result<String, Fault>;

/// The folder name of a Claim: the digest of its four identities.
#[must_use]
pub fn namespace(assignment: &Assignment, member: &Member) -> Digest {
    digest_of(|members| {
        members.name("claim_handle", |w| member.handle.write(w));
        members.name("claim_id", |w| member.claim_id.write(w));
        members.name("dispatch_id", |w| assignment.dispatch_id.write(w));
        members.name("work_id", |w| member.work_id.write(w));
    })
}

/// The private folder of one Claim.
#[derive(Debug)]
pub struct Export {
    folder: PathBuf,
}

impl Export {
    /// Makes or finds the folder `<base>/claims/<hash>`, readable by its owner alone. No part of it below the base may be a
    /// link, and its real place must be the expected one.
    ///
    /// # Errors
    /// `io_failed`.
    pub fn open(base: &Path, assignment: &Assignment, member: &Member) -> Result<Self, Fault> {
        let failed = |_: std::io::Error| refused("the folder of a Claim could not be made");
        fs::create_dir_all(base).map_err(failed)?;
        let base = fs::canonicalize(base).map_err(failed)?;
        let claims = base.join(CLAIMS);
        let folder = claims.join(namespace(assignment, member).as_str());
        for part in [&claims, &folder] {
            match DirBuilder::new().mode(0o700).create(part) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
            }
            let found = fs::symlink_metadata(part).map_err(failed)?;
            if !found.file_type().is_dir() {
                return Err(refused("the folder of a Claim is no folder of its own"));
            }
            fs::set_permissions(part, fs::Permissions::from_mode(0o700)).map_err(failed)?;
        }
        if fs::canonicalize(&folder).map_err(failed)? != folder {
            return Err(refused("the folder of a Claim is somewhere else"));
        }
        Ok(Self { folder })
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes the structured failures of the Claim; nothing where there are none.
    ///
    /// # Errors
    /// What the redaction refuses, and `io_failed`. The file is not there then.
    pub fn errors(
        &self,
        assignment: &Assignment,
        member: &Member,
        rejected: &[&Rejected],
        redact: Redact<'_>,
    ) -> Result<(), Fault> {
        let place = self.folder.join(ERRORS_NAME);
        // Whatever stood there before is not this run's.
        let _ = fs::remove_file(&place);
        if rejected.is_empty() {
            return Ok(());
        }
        let mut messages = Vec::with_capacity(rejected.len());
        for one in rejected {
            let output = redact(one.output.as_deref().unwrap_or("invalid"))?;
            messages.push((one, output, cut(redact(one.fault.message())?)));
        }
        let mut writer = Writer::new();
        writer.array(&messages, |w, (rejected, output, message)| {
            w.object(|members| {
                members.name("category", |w| w.string(rejected.fault.code().as_str()));
                members.name("claim_handle", |w| member.handle.write(w));
                members.name("claim_id", |w| member.claim_id.write(w));
                members.name("dispatch_id", |w| assignment.dispatch_id.write(w));
                members.name("index", |w| match rejected.index {
                    Some(index) => w.integer(index as i64),
                    None => w.raw("null"),
                });
                members.name("message", |w| w.string(message));
                members.name("type", |w| w.string(output));
                members.name("work_id", |w| member.work_id.write(w));
            });
        });
        self.write(ERRORS_NAME, &writer.finish())
    }

    /// Puts a file in place whole, readable by its owner alone; a link of its name is replaced, never followed.
    fn write(&self, name: &str, text: &str) -> Result<(), Fault> {
        let failed = |_: std::io::Error| refused("a file of a Claim could not be written");
        // The system's temporary files are made with mode 0600.
        let mut file = tempfile::Builder::new().prefix(".wq-").tempfile_in(&self.folder).map_err(failed)?;
        file.write_all(text.as_bytes()).and_then(|()| file.write_all(b"\n")).map_err(failed)?;
        file.persist(self.folder.join(name)).map_err(|error| failed(error.error))?;
        Ok(())
    }
}

fn refused(message: &'static str) -> Fault {
    Fault::new(Code::IoFailed, message)
}

/// At most 1 KiB, ending at a character.
fn cut(mut message: String) -> String {
    if message.len() > MAX_MESSAGE_BYTES {
        let end = (0..=MAX_MESSAGE_BYTES).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
        message.truncate(end);
    }
    message
}
