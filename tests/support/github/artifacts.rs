//! Artifacts of runs: listing, the redirect to a signed address, and the storage behind it, which is another host and wants
//! no token.

use std::sync::Arc;

use serde_json::{Value, json};

use super::call::{Answer, Transport};
use super::handle::Github;
use super::render::put;
use super::rest::{Reply, Request};
use super::time::rfc3339;
use super::world::World;

/// Path of the storage, with the id of an artifact after it.
const STORAGE: &str = "/_storage/";

/// What a job uploaded.
#[derive(Clone, Debug)]
pub(crate) struct Artifact {
    pub(crate) id: u64,
    pub(crate) run: u64,
    pub(crate) name: String,
    pub(crate) archive: Arc<[u8]>,
    pub(crate) expired: bool,
    /// What the listing says of its size, if that is not so.
    pub(crate) said: Option<u64>,
}

/// A file for a ZIP archive.
pub(crate) struct Packed<'a> {
    pub(crate) name: &'a str,
    pub(crate) content: &'a [u8],
    pub(crate) deflated: bool,
    /// Unix mode; 0 for none.
    pub(crate) mode: u32,
}

impl<'a> Packed<'a> {
    /// A deflated plain file.
    pub(crate) fn new(name: &'a str, content: &'a [u8]) -> Self {
        Self { name, content, deflated: true, mode: 0o100_644 }
    }
}

/// A ZIP archive.
pub(crate) fn zip(files: &[Packed<'_>]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for file in files {
        let packed =
            if file.deflated { miniz_oxide::deflate::compress_to_vec(file.content, 1) } else { file.content.to_vec() };
        let mut fields: Vec<u8> = Vec::new();
        let short = |out: &mut Vec<u8>, value: u16| out.extend_from_slice(&value.to_le_bytes());
        let long =
            |out: &mut Vec<u8>, value: usize| out.extend_from_slice(&u32::try_from(value).unwrap().to_le_bytes());
        short(&mut fields, 0);
        short(&mut fields, if file.deflated { 8 } else { 0 });
        fields.extend_from_slice(&[0; 4]);
        fields.extend_from_slice(&crc32(file.content).to_le_bytes());
        long(&mut fields, packed.len());
        long(&mut fields, file.content.len());
        short(&mut fields, u16::try_from(file.name.len()).unwrap());
        short(&mut fields, 0);
        let at = out.len();
        out.extend_from_slice(b"PK\x03\x04\x14\x00");
        out.extend_from_slice(&fields);
        out.extend_from_slice(file.name.as_bytes());
        out.extend_from_slice(&packed);
        directory.extend_from_slice(b"PK\x01\x02\x14\x03\x14\x00");
        directory.extend_from_slice(&fields);
        directory.extend_from_slice(&[0; 6]);
        directory.extend_from_slice(&(file.mode << 16).to_le_bytes());
        long(&mut directory, at);
        directory.extend_from_slice(file.name.as_bytes());
    }
    let (count, start) = (u16::try_from(files.len()).unwrap().to_le_bytes(), out.len());
    out.extend_from_slice(&directory);
    out.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    out.extend_from_slice(&count);
    out.extend_from_slice(&count);
    out.extend_from_slice(&u32::try_from(directory.len()).unwrap().to_le_bytes());
    out.extend_from_slice(&u32::try_from(start).unwrap().to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    out
}

/// The checksum of the standard, bit by bit where the reader has a table.
fn crc32(bytes: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
        }
    }
    !sum
}

impl Github {
    /// A job of a run uploads an archive. Returns the artifact's id.
    pub(crate) fn upload(&self, run: u64, name: &str, archive: Vec<u8>) -> u64 {
        let mut world = self.world();
        let id = world.fresh(40_000);
        let artifact = Artifact { id, run, name: name.to_owned(), archive: archive.into(), expired: false, said: None };
        world.artifacts.push(artifact);
        id
    }

    /// Changes an artifact.
    pub(crate) fn change_artifact(&self, id: u64, change: impl FnOnce(&mut Artifact)) {
        let mut world = self.world();
        change(world.artifacts.iter_mut().find(|artifact| artifact.id == id).expect("there is such an artifact"));
    }
}

impl World {
    /// `GET …/actions/runs/{run_id}/artifacts`, newest first.
    pub(super) fn list_artifacts(&self, request: &Request, repository: u64, run: u64) -> Reply {
        let number =
            |name: &str, default: usize| request.query(name).and_then(|text| text.parse().ok()).unwrap_or(default);
        let (per_page, page) = (number("per_page", 30).clamp(1, 100), number("page", 1).max(1));
        let all: Vec<&Artifact> = self.artifacts.iter().rev().filter(|artifact| artifact.run == run).collect();
        let shown = all.iter().skip((page - 1) * per_page).take(per_page);
        let shown = shown.map(|artifact| self.render_artifact(artifact, repository)).collect();
        Reply::ok(put(json!({"total_count": all.len()}), [("artifacts", Value::Array(shown))]))
    }

    fn render_artifact(&self, artifact: &Artifact, repository: u64) -> Value {
        let url = format!(
            "{}/repos/{}/actions/artifacts/{}",
            self.api,
            self.full_name(&self.repositories[&repository]),
            artifact.id
        );
        let moment = rfc3339(self.now());
        json!({"id": artifact.id, "node_id": format!("A_{}", artifact.id), "name": artifact.name,
            "size_in_bytes": artifact.said.unwrap_or(artifact.archive.len() as u64), "url": url,
            "archive_download_url": format!("{url}/zip"), "expired": artifact.expired, "created_at": moment,
            "updated_at": moment, "expires_at": moment,
            "workflow_run": {"id": artifact.run, "repository_id": repository, "head_repository_id": repository,
                "head_branch": "main", "head_sha": "0".repeat(40)}})
    }

    /// `GET …/actions/artifacts/{artifact_id}/zip`: the signed address.
    pub(super) fn artifact_address(&self, request: &Request, repository: u64) -> Result<Reply, Reply> {
        let id: u64 = request.parameter(2).parse().map_err(|_| Reply::not_found())?;
        let artifact = self.artifacts.iter().find(|artifact| artifact.id == id);
        let artifact =
            artifact.filter(|artifact| self.run(artifact.run, 0).is_some_and(|run| run.repository == repository));
        let artifact = artifact.filter(|_| request.parameter(3) == "zip").ok_or_else(Reply::not_found)?;
        if artifact.expired {
            return Err(Reply::error(410, "Artifact has expired"));
        }
        // The same machine by another name stands for another host.
        let base = self.web.replace("//127.0.0.1", "//localhost").replace("//github.com", "//storage.example");
        let reply = Reply { status: 302, body: None, headers: Vec::new() };
        Ok(reply.header("location", format!("{base}{STORAGE}{id}?sig=s%2Fs")))
    }

    /// What the storage answers; none for a path that is not the storage's. It refuses tokens, as signed addresses do.
    pub(super) fn storage(&mut self, path: &str, with_token: bool) -> Option<Answer> {
        let id: u64 = path.split_once(STORAGE)?.1.parse().ok()?;
        self.downloads.push(with_token);
        let found = self.artifacts.iter().find(|artifact| artifact.id == id && !with_token);
        let (status, body) = found.map_or((403, Vec::new()), |artifact| (200, artifact.archive.to_vec()));
        let headers = vec![("content-type".to_owned(), "application/zip".to_owned())];
        Some(Answer { status, headers, body, fault: Transport::Deliver, at: 0 })
    }
}

impl Github {
    /// Whether each download so far came with a token.
    pub(crate) fn downloads(&self) -> Vec<bool> {
        self.world().downloads.clone()
    }

    /// Answers the storage in process.
    pub(super) fn store(&self, address: &str) -> Option<Answer> {
        let path = address.split('?').next().unwrap_or(address).to_owned();
        self.world().storage(&path, false)
    }
}
