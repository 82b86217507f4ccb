//! Files of a repository at one revision (publication.md 4.3, 4.4).

use base64::Engine as _;
use serde::Deserialize;

use super::client::{Client, path, segment};
use super::endpoint::CONTENTS;
use super::error::{Failure, ForgeError};
use crate::protocol::{RepositoryName, Revision};

/// What an entry of a tree is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A link, a submodule, or whatever else there is.
    #[serde(other)]
    Other,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Entry {
    /// What it is.
    #[serde(rename = "type")]
    pub kind: EntryKind,
    /// Its path from the root.
    pub path: String,
}

#[derive(Deserialize)]
struct File {
    #[serde(rename = "type")]
    kind: EntryKind,
    path: String,
    size: u64,
    #[serde(default)]
    encoding: Option<String>,
    #[serde(default)]
    content: Option<String>,
}

/// Why a file that is there cannot be used (publication.md 4.5: local to the worker that it belongs to).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unusable {
    /// It is no regular file at exactly this path.
    NotRegular,
    /// It is larger than the bound.
    TooLarge,
    /// Its content is not base64.
    Undecodable,
}

impl Client<'_> {
    /// A regular file at exactly this path and revision, of at most `most` bytes. None where there is none; the inner
    /// error where there is something else.
    ///
    /// # Errors
    /// A [`ForgeError`] for every failure but 404.
    pub fn file(
        &self,
        repository: &RepositoryName,
        revision: &Revision,
        file: &str,
        most: u64,
    ) -> Result<Option<Result<Vec<u8>, Unusable>>, ForgeError> {
        let target = format!("/repos/{repository}/contents/{}?ref={}", path(file), segment(revision.as_str()));
        let found: Option<serde_json::Value> = self.find(&CONTENTS, target)?;
        let Some(found) = found else { return Ok(None) };
        // A directory is a list.
        let Ok(found) = File::deserialize(found) else { return Ok(Some(Err(Unusable::NotRegular))) };
        if found.kind != EntryKind::File || found.path != file {
            return Ok(Some(Err(Unusable::NotRegular)));
        }
        if found.size > most {
            return Ok(Some(Err(Unusable::TooLarge)));
        }
        let content = match (found.encoding.as_deref(), found.content) {
            (Some("base64"), Some(content)) => content,
            // Above 1 MiB the host leaves the content out.
            _ => return Ok(Some(Err(Unusable::Undecodable))),
        };
        let compact: String = content.split_ascii_whitespace().collect();
        let bytes = base64::engine::general_purpose::STANDARD.decode(compact);
        Ok(Some(match bytes {
            Ok(bytes) if bytes.len() as u64 == found.size => Ok(bytes),
            _ => Err(Unusable::Undecodable),
        }))
    }

    /// The entries of a directory at a revision; none where there is none. GitHub lists at most 1,000.
    ///
    /// # Errors
    /// A [`ForgeError`] for every failure but 404.
    pub fn directory(
        &self,
        repository: &RepositoryName,
        revision: &Revision,
        directory: &str,
    ) -> Result<Option<Vec<Entry>>, ForgeError> {
        let target = format!("/repos/{repository}/contents/{}?ref={}", path(directory), segment(revision.as_str()));
        let found: Option<serde_json::Value> = self.find(&CONTENTS, target)?;
        let list = |value| Vec::deserialize(value).map_err(|_| ForgeError::new(&CONTENTS, Failure::Reply));
        found.map(list).transpose()
    }
}
