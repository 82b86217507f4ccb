//! The two questions that only GraphQL answers (publication.md 3.1, decision 63).

use serde::Deserialize;

use super::client::Client;
use super::endpoint::{IS_EMPTY, PULL_MERGE};
use super::error::{Failure, ForgeError};
use super::records::PullMerge;
use crate::protocol::{Decimal, RepositoryName, Revision};

/// The query behind [`Client::is_empty`].
const REPOSITORY_QUERY: &str = "query QueueRepository($owner: String!, $name: String!) { \
     repository(owner: $owner, name: $name) { nameWithOwner isEmpty } }";
/// The query behind [`Client::pull_merge`].
const PULL_QUERY: &str = "query QueuePullRequest($owner: String!, $name: String!, $number: Int!) { \
     repository(owner: $owner, name: $name) { nameWithOwner pullRequest(number: $number) { \
     fullDatabaseId merged mergeCommit { oid } } } }";

#[derive(Deserialize)]
struct Data<T> {
    repository: Option<T>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Emptiness {
    name_with_owner: String,
    is_empty: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pulls {
    name_with_owner: String,
    pull_request: Option<Merge>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Merge {
    /// A BigInt, which GraphQL writes as a string.
    full_database_id: Option<String>,
    merged: bool,
    merge_commit: Option<Oid>,
}

#[derive(Deserialize)]
struct Oid {
    oid: String,
}

impl Client<'_> {
    /// Whether a repository has no branch at all, from an answer that names exactly this repository.
    ///
    /// # Errors
    /// A [`ForgeError`]; `api_reply_invalid` when the answer names another repository.
    pub fn is_empty(&self, repository: &RepositoryName) -> Result<bool, ForgeError> {
        let (owner, name) = repository.parts();
        let variables = serde_json::json!({"owner": owner, "name": name});
        let body = serde_json::json!({"query": REPOSITORY_QUERY, "variables": variables}).to_string();
        let data: Data<Emptiness> = self.query(&IS_EMPTY, body)?;
        match data.repository {
            Some(found) if found.name_with_owner.eq_ignore_ascii_case(repository.as_str()) => Ok(found.is_empty),
            _ => Err(ForgeError::new(&IS_EMPTY, Failure::Reply)),
        }
    }

    /// Whether a pull request was merged, and its merge commit.
    ///
    /// # Errors
    /// A [`ForgeError`]; `api_reply_invalid` when the answer names another repository or no pull request.
    pub fn pull_merge(&self, repository: &RepositoryName, number: &Decimal) -> Result<PullMerge, ForgeError> {
        let reply = || ForgeError::new(&PULL_MERGE, Failure::Reply);
        let (owner, name) = repository.parts();
        // GraphQL's Int has 32 bits.
        let number: i32 = number.as_str().parse().map_err(|_| reply())?;
        let variables = serde_json::json!({"owner": owner, "name": name, "number": number});
        let body = serde_json::json!({"query": PULL_QUERY, "variables": variables}).to_string();
        let data: Data<Pulls> = self.query(&PULL_MERGE, body)?;
        let same = |found: &Pulls| found.name_with_owner.eq_ignore_ascii_case(repository.as_str());
        let merge = data.repository.filter(same).and_then(|found| found.pull_request).ok_or_else(reply)?;
        Ok(PullMerge {
            merged: merge.merged,
            id: merge.full_database_id.and_then(|id| Decimal::new(id).ok()),
            commit: merge.merge_commit.and_then(|commit| Revision::new(commit.oid).ok()),
        })
    }
}
