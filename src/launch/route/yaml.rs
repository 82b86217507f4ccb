//! A small, bounded tree of YAML 1.2 (publication.md 4.4 points 3 and 4).
//!
//! Keys are text, so `on` stays "on". Aliases share their target instead of copying it, and every use is counted with
//! what it stands for, so no text grows beyond a bound that its own length does not explain.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use super::Defect;
use crate::launch::settings::MAX_FILE_BYTES;

/// Deepest nesting; a compiled workflow has about ten levels.
const MAX_DEPTH: usize = 64;
/// Most alias expansions, those inside expanded nodes included.
const MAX_EXPANSIONS: usize = 100;
/// Most nodes, each expansion counted with all its nodes.
const MAX_NODES: usize = 262_144;

/// A value. Only what a workflow file is asked about is told apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Yaml {
    /// A string, quoted, in a block, or plain text that is nothing else in the core schema.
    Text(String),
    /// A boolean.
    Bool(bool),
    /// Nothing.
    Null,
    /// A number, as it is spelled.
    Number(String),
    Sequence(Vec<Rc<Yaml>>),
    Mapping(BTreeMap<String, Rc<Yaml>>),
}

impl Yaml {
    /// Reads one document of at most 1 MiB.
    pub(super) fn read(text: &str) -> Result<Rc<Self>, Defect> {
        if text.len() > MAX_FILE_BYTES {
            return Err(Defect::TooLong);
        }
        // A directive could ask for YAML 1.1, where `on` is a boolean.
        let mut lines = text.trim_start_matches('\u{feff}').lines();
        let first = lines.find(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
        if first.is_some_and(|line| line.starts_with('%')) {
            return Err(Defect::NotYaml);
        }
        let mut builder = Builder::default();
        for event in Parser::new_from_str(text) {
            let (event, _) = event.map_err(|_| Defect::NotYaml)?;
            builder.take(event)?;
        }
        builder.root.ok_or(Defect::NotYaml)
    }

    /// The value under a key, if this is a mapping that has it.
    pub(super) fn get(&self, key: &str) -> Option<&Yaml> {
        self.mapping()?.get(key).map(Rc::as_ref)
    }

    /// The value at the end of a path of keys.
    pub(super) fn at(&self, path: &[&str]) -> Option<&Yaml> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    pub(super) fn mapping(&self) -> Option<&BTreeMap<String, Rc<Yaml>>> {
        match self {
            Self::Mapping(members) => Some(members),
            _ => None,
        }
    }

    pub(super) fn sequence(&self) -> Option<&[Rc<Yaml>]> {
        match self {
            Self::Sequence(items) => Some(items),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// What was used up so far.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    expansions: usize,
    nodes: usize,
}

/// An anchored node and what one use of it costs.
struct Anchored {
    node: Rc<Yaml>,
    cost: Used,
}

/// A collection that is not closed yet.
struct Open {
    anchor: usize,
    /// What was used up before it.
    before: Used,
    body: Body,
}

enum Body {
    Sequence(Vec<Rc<Yaml>>),
    Mapping { members: BTreeMap<String, Rc<Yaml>>, key: Option<Key>, merge: Option<Rc<Yaml>> },
}

enum Key {
    Name(String),
    /// A plain `<<`.
    Merge,
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    anchors: HashMap<usize, Anchored>,
    used: Used,
    root: Option<Rc<Yaml>>,
}

impl Builder {
    fn take(&mut self, event: Event<'_>) -> Result<(), Defect> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) if self.root.is_some() => Err(Defect::NotYaml),
            Event::DocumentStart(_) => Ok(()),
            Event::Alias(anchor) => self.alias(anchor),
            Event::Scalar(text, style, anchor, tag) => self.scalar(text, style, anchor, tag),
            Event::SequenceStart(anchor, tag) => self.start(anchor, tag, "seq", Body::Sequence(Vec::new())),
            Event::MappingStart(anchor, tag) => {
                let body = Body::Mapping { members: BTreeMap::new(), key: None, merge: None };
                self.start(anchor, tag, "map", body)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
        }
    }

    fn spend(&mut self, cost: Used) -> Result<(), Defect> {
        self.used.expansions = self.used.expansions.saturating_add(cost.expansions);
        self.used.nodes = self.used.nodes.saturating_add(cost.nodes);
        if self.used.expansions > MAX_EXPANSIONS || self.used.nodes > MAX_NODES {
            return Err(Defect::YamlTooComplex);
        }
        Ok(())
    }

    fn start(&mut self, anchor: usize, tag: Option<Cow<'_, Tag>>, expected: &str, body: Body) -> Result<(), Defect> {
        if tag.is_some_and(|tag| core_tag(&tag) != Some(expected)) || self.wants_key() {
            // A collection as a key, or a tag that changes what the node is.
            return Err(Defect::NotYaml);
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(Defect::YamlTooComplex);
        }
        let before = self.used;
        self.spend(Used { expansions: 0, nodes: 1 })?;
        self.open.push(Open { anchor, before, body });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Defect> {
        let Open { anchor, before, body } = self.open.pop().ok_or(Defect::NotYaml)?;
        let node = match body {
            Body::Sequence(items) => Yaml::Sequence(items),
            Body::Mapping { mut members, merge, .. } => {
                if let Some(merge) = merge {
                    merge_into(&mut members, &merge)?;
                }
                Yaml::Mapping(members)
            }
        };
        self.finish(anchor, before, node)
    }

    /// Remembers a complete node under its anchor and puts it where it belongs.
    fn finish(&mut self, anchor: usize, before: Used, node: Yaml) -> Result<(), Defect> {
        let node = Rc::new(node);
        if anchor > 0 {
            let cost =
                Used { expansions: self.used.expansions - before.expansions, nodes: self.used.nodes - before.nodes };
            self.anchors.insert(anchor, Anchored { node: Rc::clone(&node), cost });
        }
        self.place(node)
    }

    fn alias(&mut self, anchor: usize) -> Result<(), Defect> {
        // An anchor whose node is still open is an alias to itself.
        let Some(Anchored { node, cost }) = self.anchors.get(&anchor) else { return Err(Defect::NotYaml) };
        let (node, cost) = (Rc::clone(node), *cost);
        self.spend(Used { expansions: cost.expansions + 1, nodes: cost.nodes })?;
        if self.wants_key() {
            let Yaml::Text(name) = node.as_ref() else { return Err(Defect::NotYaml) };
            return self.key(Key::Name(name.clone()));
        }
        self.place(node)
    }

    fn scalar(
        &mut self,
        text: Cow<'_, str>,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<Cow<'_, Tag>>,
    ) -> Result<(), Defect> {
        let before = self.used;
        self.spend(Used { expansions: 0, nodes: 1 })?;
        let plain = style == ScalarStyle::Plain;
        let node = match &tag {
            None if plain => resolve(&text),
            None => Yaml::Text(text.clone().into_owned()),
            Some(tag) => tagged(tag, &text)?,
        };
        if self.wants_key() {
            if anchor > 0 {
                let cost = Used { expansions: 0, nodes: 1 };
                self.anchors.insert(anchor, Anchored { node: Rc::new(node), cost });
            }
            let merge = plain && tag.is_none() && text == "<<";
            return self.key(if merge { Key::Merge } else { Key::Name(text.into_owned()) });
        }
        self.finish(anchor, before, node)
    }

    fn wants_key(&self) -> bool {
        matches!(self.open.last(), Some(Open { body: Body::Mapping { key: None, .. }, .. }))
    }

    fn key(&mut self, key: Key) -> Result<(), Defect> {
        let Some(Open { body: Body::Mapping { members, key: slot, merge }, .. }) = self.open.last_mut() else {
            return Err(Defect::NotYaml);
        };
        let repeated = match &key {
            Key::Name(name) => members.contains_key(name),
            Key::Merge => merge.is_some(),
        };
        if repeated {
            return Err(Defect::NotYaml);
        }
        *slot = Some(key);
        Ok(())
    }

    fn place(&mut self, node: Rc<Yaml>) -> Result<(), Defect> {
        match self.open.last_mut().map(|open| &mut open.body) {
            None if self.root.is_none() => self.root = Some(node),
            None => return Err(Defect::NotYaml),
            Some(Body::Sequence(items)) => items.push(node),
            Some(Body::Mapping { members, key, merge }) => match key.take() {
                Some(Key::Name(name)) => {
                    members.insert(name, node);
                }
                Some(Key::Merge) => *merge = Some(node),
                None => return Err(Defect::NotYaml),
            },
        }
        Ok(())
    }
}

/// Adds what a merge key brings: own members win over merged ones, earlier mappings over later ones.
fn merge_into(members: &mut BTreeMap<String, Rc<Yaml>>, merge: &Yaml) -> Result<(), Defect> {
    let mut add = |source: &Yaml| -> Result<(), Defect> {
        for (name, value) in source.mapping().ok_or(Defect::NotYaml)? {
            if !members.contains_key(name) {
                members.insert(name.clone(), Rc::clone(value));
            }
        }
        Ok(())
    };
    match merge.sequence() {
        Some(sources) => sources.iter().try_for_each(|source| add(source)),
        None => add(merge),
    }
}

/// The name of a tag of the core schema; others give a node another meaning.
fn core_tag(tag: &Tag) -> Option<&str> {
    (tag.handle == "tag:yaml.org,2002:").then_some(tag.suffix.as_str())
}

/// A scalar with a tag of its own. Only the tags that say what the text is anyway are accepted.
fn tagged(tag: &Tag, text: &str) -> Result<Yaml, Defect> {
    match core_tag(tag) {
        Some("str") => Ok(Yaml::Text(text.to_owned())),
        Some(name) => match (name, resolve(text)) {
            ("bool", value @ Yaml::Bool(_)) | ("null", value @ Yaml::Null) => Ok(value),
            ("int" | "float", value @ Yaml::Number(_)) => Ok(value),
            _ => Err(Defect::NotYaml),
        },
        None if tag.handle.is_empty() && tag.suffix == "!" => Ok(Yaml::Text(text.to_owned())),
        None => Err(Defect::NotYaml),
    }
}

/// A plain scalar in the core schema of YAML 1.2: `on`, `yes` and `0o` dates are text.
fn resolve(text: &str) -> Yaml {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Yaml::Null,
        "true" | "True" | "TRUE" => Yaml::Bool(true),
        "false" | "False" | "FALSE" => Yaml::Bool(false),
        _ if is_number(text) => Yaml::Number(text.to_owned()),
        _ => Yaml::Text(text.to_owned()),
    }
}

fn is_number(text: &str) -> bool {
    let radix = |prefix: &str, digit: fn(&u8) -> bool| {
        text.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.as_bytes().iter().all(digit))
    };
    if radix("0x", u8::is_ascii_hexdigit) || radix("0o", |byte| (b'0'..=b'7').contains(byte)) {
        return true;
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    digits(whole)
        && digits(fraction)
        && whole.len() + fraction.len() > 0
        && exponent.is_none_or(|exponent| !exponent.is_empty() && digits(exponent))
}
