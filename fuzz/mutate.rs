//! Changes to a ledger's values, for inputs that byte changes would hardly reach.

use super::core::protocol::json::{Value, parse_bounded};

/// A small generator of choices; libFuzzer supplies the seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides.max(1)
    }
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.iter().map(|(_, value)| count(value)).sum(),
        _ => 0,
    }
}

/// The value at a place in depth-first order, which must lie below the count.
fn place(value: &mut Value, at: usize) -> &mut Value {
    if at == 0 {
        return value;
    }
    let mut rest = at - 1;
    let inside: Vec<&mut Value> = match value {
        Value::Array(items) => items.iter_mut().collect(),
        Value::Object(members) => members.iter_mut().map(|(_, value)| value).collect(),
        _ => Vec::new(),
    };
    for item in inside {
        let size = count(item);
        if rest < size {
            return place(item, rest);
        }
        rest -= size;
    }
    unreachable!("a place below the count exists")
}

fn pick<'a>(lines: &'a mut [Value], dice: &mut Dice) -> &'a mut Value {
    let line = dice.roll(lines.len());
    let at = dice.roll(count(&lines[line]));
    place(&mut lines[line], at)
}

/// Changes the values of a ledger rather than its bytes: splices, tweaks, drops, repeats and swaps, then repeats the
/// operations in the parameters and asks for new fingerprints, so that the change reaches replay itself.
pub fn mutate_ledger(data: &[u8], seed: u32) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(data).ok()?;
    let mut lines: Vec<Value> =
        text.lines().map(|line| parse_bounded(line, line.len().max(1)).ok()).collect::<Option<_>>()?;
    if lines.is_empty() || lines.len() > 64 {
        return None;
    }
    let mut dice = Dice(u64::from(seed) << 20 | 0x9e37);
    for _ in 0..=dice.roll(3) {
        let other = pick(&mut lines, &mut dice).clone();
        let first = dice.roll(lines.len());
        let second = dice.roll(lines.len());
        match dice.roll(10) {
            0 | 1 => *pick(&mut lines, &mut dice) = other,
            2 => lines.swap(first, second),
            3 => {
                let line = lines[first].clone();
                lines.insert(second, line);
            }
            4 if lines.len() > 1 => drop(lines.remove(first)),
            5 => match pick(&mut lines, &mut dice) {
                Value::Array(items) => items.push(other),
                Value::Object(members) if !members.is_empty() => {
                    let member = dice.roll(members.len());
                    members.remove(member);
                }
                value => *value = other,
            },
            6 => match pick(&mut lines, &mut dice) {
                Value::Array(items) if !items.is_empty() => {
                    let item = dice.roll(items.len());
                    items.remove(item);
                }
                Value::Object(members) => {
                    members.push((["keep_open", "subject", "enqueued", "at"][dice.roll(4)].to_owned(), other))
                }
                value => *value = other,
            },
            _ => match pick(&mut lines, &mut dice) {
                Value::Integer(number) => {
                    *number = match dice.roll(5) {
                        0 => *number + 1,
                        1 => *number - 1,
                        2 => 0,
                        3 => 9_007_199_254_740_991,
                        _ => 1 << dice.roll(52),
                    }
                }
                Value::String(text) if !text.is_empty() => {
                    let at = dice.roll(text.len());
                    if text.is_char_boundary(at) {
                        text.truncate(at);
                    }
                }
                Value::Bool(flag) => *flag = !*flag,
                value => *value = other,
            },
        }
    }
    let mut out = String::new();
    let mut previous = Value::Null;
    for mut line in lines {
        let operations = line.get("operations").cloned();
        let id = line.get("id").cloned().unwrap_or(Value::Null);
        if let Value::Object(members) = &mut line {
            for (name, value) in members {
                // Mostly the chain is kept whole; a broken one is refused early.
                if name == "previous" && dice.roll(20) > 0 {
                    *value = previous.clone();
                } else if name == "request" {
                    repeat(value, operations.as_ref());
                }
            }
        }
        previous = id;
        out.push_str(&line.encode().ok()?);
        out.push('\n');
    }
    Some(out.into_bytes())
}

/// Puts the operations into the parameters that must repeat them, and the marker into the fingerprint.
fn repeat(request: &mut Value, operations: Option<&Value>) {
    let Value::Object(members) = request else { return };
    for (name, value) in members {
        match (name.as_str(), value) {
            ("fingerprint", value) => *value = Value::String("f".repeat(64)),
            ("parameters", Value::Object(parameters)) => {
                for (name, value) in parameters {
                    let Some(Value::Array(operations)) = operations else { continue };
                    match name.as_str() {
                        "operations" => *value = Value::Array(operations.clone()),
                        "nodes" => {
                            let policy = operations.first().and_then(|one| one.get("kind")?.as_str()) == Some("Policy");
                            *value = Value::Array(operations[usize::from(policy)..].to_vec());
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
}
