//! The little of a workflow file that GitHub looks at for a dispatch.

/// A declared input.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Input {
    pub(super) name: String,
    pub(super) required: bool,
    pub(super) has_default: bool,
}

/// Lines with their depth of indentation, without comments and blank lines.
fn lines(text: &str) -> Vec<(usize, &str)> {
    text.lines()
        .filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
        .map(|line| (line.len() - line.trim_start().len(), line.trim()))
        .collect()
}

/// The index of a key among the children of the line before `from`, which is indented by `depth`; the key's own depth.
fn child(lines: &[(usize, &str)], from: usize, depth: Option<usize>, key: &str) -> Option<(usize, usize)> {
    let inner = lines.get(from)?.0;
    if depth.is_some_and(|depth| inner <= depth) {
        return None;
    }
    for (index, (indent, text)) in lines.iter().enumerate().skip(from) {
        if *indent < inner {
            return None;
        }
        let name = text.split(':').next().unwrap_or_default().trim_matches(['"', '\'']);
        if *indent == inner && name == key {
            return Some((index, inner));
        }
    }
    None
}

/// The inputs of `on.workflow_dispatch`; none if the workflow has no such trigger. Only block style is understood.
pub(super) fn inputs(text: &str) -> Option<Vec<Input>> {
    let lines = lines(text);
    let (on, depth) = child(&lines, 0, None, "on")?;
    if lines[on].1.contains("workflow_dispatch") {
        return Some(Vec::new());
    }
    let (dispatch, depth) = child(&lines, on + 1, Some(depth), "workflow_dispatch")?;
    let Some((inputs, depth)) = child(&lines, dispatch + 1, Some(depth), "inputs") else { return Some(Vec::new()) };
    let mut found: Vec<Input> = Vec::new();
    let mut inner = None;
    for (indent, text) in &lines[inputs + 1..] {
        if *indent <= depth {
            break;
        }
        let inner = *inner.get_or_insert(*indent);
        if *indent == inner {
            let name = text.split(':').next().unwrap_or_default().trim_matches(['"', '\'']).to_owned();
            found.push(Input { name, required: false, has_default: false });
        } else if let Some(last) = found.last_mut() {
            last.required |= *text == "required: true";
            last.has_default |= text.starts_with("default:");
        }
    }
    Some(found)
}
