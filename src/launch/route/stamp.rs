//! The contract stamp of a worker, computed from its source (publication.md 4.4; decision 32). Only files that `wq init`
//! writes are stamped this way; a stamp that a compiler wrote is taken as the literal that it is.

use super::source::SourceFile;
use super::yaml::Yaml;
use crate::protocol::Digest;
use crate::protocol::json::Writer;

/// The front matter that says what a worker may do, and so is part of its contract. Prompt text and engine are not.
const AUTHORITY: [&str; 8] =
    ["permissions", "tools", "safe-outputs", "network", "checkout", "mcp-servers", "mcp-scripts", "sandbox"];
/// What a contract does not cover wherever it stands: whose token it is changes nothing of what is done with it.
const CREDENTIAL: &str = "github-token";
/// Members with named scripts, and what of a script is its text and not its capability.
const SCRIPTS: [&[&str]; 2] = [&["mcp-scripts"], &["safe-outputs", "scripts"]];
const SCRIPT_TEXT: [&str; 3] = ["run", "script", "description"];

impl SourceFile {
    /// The contract stamp of a worker with this source, whose `imports` are given in the order of its front matter:
    /// SHA-256 of the canonical JSON `{claims: 3, imported, local, mounts, version: 1}`. `local` and each of `imported`
    /// hold the members of the front matter that grant something, and the inputs of `workflow_dispatch`. Tokens, and
    /// the text of scripts, are left out.
    ///
    /// The same front matter in another order, style or with other comments has the same stamp.
    #[must_use]
    pub fn contract(&self, imports: &[Self]) -> Digest {
        let mut writer = Writer::new();
        writer.object(|members| {
            members.name("claims", |w| w.integer(3));
            members.name("imported", |w| w.array(imports, |w, import| import.authority(w)));
            members.name("local", |w| self.authority(w));
            members.name("mounts", |w| w.raw("[]"));
            members.name("version", |w| w.integer(1));
        });
        Digest::of(&[&writer.finish()])
    }

    /// Paths of the front matter's `imports`, as they are written.
    #[must_use]
    pub fn imports(&self) -> Vec<&str> {
        let items = self.front.get("imports").and_then(Yaml::sequence).unwrap_or_default();
        items.iter().filter_map(|item| item.text().or_else(|| item.get("path").and_then(Yaml::text))).collect()
    }

    fn authority(&self, writer: &mut Writer) {
        let mut parts: Vec<(&str, &Yaml)> =
            AUTHORITY.iter().filter_map(|name| Some((*name, self.front.get(name)?))).collect();
        if let Some(inputs) = self.front.at(&["on", "workflow_dispatch", "inputs"]) {
            parts.push(("inputs", inputs));
        }
        parts.sort_unstable_by_key(|(name, _)| *name);
        let text = object(parts.into_iter().map(|(name, value)| (name, encode(value, &mut vec![name]))));
        writer.raw(&text);
    }
}

/// Canonical JSON of a value at a path of the front matter. A number stands as `{"number": …}` in its own spelling.
fn encode<'y>(value: &'y Yaml, path: &mut Vec<&'y str>) -> String {
    match value {
        Yaml::Text(text) => quoted(text),
        Yaml::Bool(value) => value.to_string(),
        Yaml::Null => "null".to_owned(),
        Yaml::Number(text) => object([("number", quoted(text))]),
        Yaml::Sequence(items) => {
            let items: Vec<String> = items.iter().map(|item| encode(item, path)).collect();
            format!("[{}]", items.join(","))
        }
        Yaml::Mapping(members) => {
            let script = path.split_last().is_some_and(|(_, parent)| SCRIPTS.contains(&parent));
            let covered = members
                .iter()
                .filter(|(name, _)| *name != CREDENTIAL && !(script && SCRIPT_TEXT.contains(&name.as_str())));
            let mut encoded = Vec::new();
            for (name, value) in covered {
                path.push(name);
                encoded.push((name.as_str(), encode(value, path)));
                path.pop();
            }
            object(encoded)
        }
    }
}

/// Joins members that come in the order of their names.
fn object<'n>(members: impl IntoIterator<Item = (&'n str, String)>) -> String {
    let members: Vec<String> = members.into_iter().map(|(name, value)| format!("{}:{value}", quoted(name))).collect();
    format!("{{{}}}", members.join(","))
}

fn quoted(text: &str) -> String {
    let mut writer = Writer::new();
    writer.string(text);
    writer.finish()
}
