//! The protocol on the line.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::desk::{Desk, absent, dispatcher, line, worker};

const PING: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":\"after\",\"method\":\"ping\"}\n";

/// jobs.md 12, number 6: the whole conversation of a worker, golden.
#[test]
fn jobs_06_golden_transcript() {
    let (snapshot, _) = worker(1);
    let desk = Desk::new("worker", &snapshot);
    let call =
        |id: i64, name: &str, arguments: Value| line(id, "tools/call", &json!({"name": name, "arguments": arguments}));
    let input = [
        line(
            0,
            "initialize",
            &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x"}}),
        ),
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned() + "\n",
        "{not json\n".to_owned(),
        call(1, "work_queue_read", json!({"work": "nothing", "limit": 1})),
        call(2, "work_queue_read", json!({"limit": 0})),
        call(3, "work_queue_explain", json!({"work": "nothing"})),
        call(4, "work_queue_explain", json!({})),
        call(5, "work_queue_submit", json!({"nodes": [{"payload": {"task": "more"}, "graph_id": "g"}]})),
        call(6, "work_queue_submit", json!({"nodes": [{"payload": {}, "authority": "mine"}]})),
        call(7, "work_queue_dispatch_next", json!({"pool": "default", "max_claims": 1, "max_dispatches": 1})),
        call(8, "work_queue_dispatch_next", json!({"pool": "elsewhere", "max_claims": 1, "max_dispatches": 1})),
        call(9, "work-queue-claim-finish", json!({"outcome": "completed"})),
        call(10, "work_queue_claim_finish", json!({"outcome": "cancelled"})),
        call(11, "work_queue_claim_finnish", json!({})),
        line(12, "ping", &json!(null)),
        line(13, "server/discover", &json!({})),
    ];
    let transcript = desk.serve(input.concat().as_bytes());
    assert_snapshot!(transcript, @r#"
    {"id":0,"jsonrpc":"2.0","result":{"capabilities":{"tools":{}},"protocolVersion":"2025-06-18","serverInfo":{"name":"work-queue","version":"3.0.0"}}}
    {"id":1,"jsonrpc":"2.0","result":{"content":[{"text":"{\"barrier_counts\":{},\"captured_at\":5000,\"claim_counts\":{},\"counts\":{},\"fairness_units\":\"durable_claims\",\"native_reservations\":{\"outstanding\":0,\"unbound\":0},\"next_offset\":null,\"offset\":0,\"policy\":{\"accounting_keys\":2,\"class_weights\":[8,4,2,1,1],\"epoch\":\"epoch_dd191696e15e2ee293410d02454c5f9461a2249dee6d57c75f264eaeb83a3782\",\"logical_limit\":16,\"mode\":\"weighted-priority\",\"native_limit\":16,\"per_account_limit\":null,\"worker_profiles\":[\"default\"]},\"policy_mode\":\"weighted-priority\",\"prediction\":{\"authoritative\":false,\"comparison\":{\"available\":0,\"capacity_after\":null,\"capacity_before\":null,\"class\":null,\"classes\":[],\"eligible\":0,\"key\":null,\"keys\":[],\"keys_total\":0,\"position\":null},\"label\":\"no_work\",\"reason\":\"no_work\",\"work_id\":null},\"queue_state\":\"initialized\",\"queue_tip\":\"q_ed4671e525956258aa3f0c358f7b1ebed95a8888e277b70b4a6aee279054530e\",\"snapshot_sha\":\"1111111111111111111111111111111111111111\",\"total\":0,\"view\":\"activation_snapshot\",\"work\":{\"id\":\"nothing\",\"state\":\"absent\"},\"works\":[]}","type":"text"}],"isError":false}}
    {"error":{"code":-32602,"message":"work_queue_read: limit: a whole number from 1 to 128 is expected"},"id":2,"jsonrpc":"2.0"}
    {"id":3,"jsonrpc":"2.0","result":{"content":[{"text":"{\"captured_at\":5000,\"explanation\":{\"authoritative\":false,\"ready\":false,\"reason\":\"work_absent\",\"state\":\"absent\",\"work_id\":\"nothing\"},\"queue_tip\":\"q_ed4671e525956258aa3f0c358f7b1ebed95a8888e277b70b4a6aee279054530e\",\"snapshot_sha\":\"1111111111111111111111111111111111111111\",\"view\":\"activation_snapshot\"}","type":"text"}],"isError":false}}
    {"error":{"code":-32602,"message":"work_queue_explain: no arguments were given; name the Work, as in {\"work\":\"...\"}"},"id":4,"jsonrpc":"2.0"}
    {"id":5,"jsonrpc":"2.0","result":{"content":[{"text":"{\"claim_handle\":\"h1\",\"intent_id\":\"intent:00000000-0000-4000-8000-000000000000\",\"status\":\"staged\"}","type":"text"}],"isError":false}}
    {"error":{"code":-32602,"message":"work_queue_submit: nodes[0]: there is no such member; there are payload, graph_id, node_key, work_id, pool, priority, fairness_key, worker_profile, logical_contract, execution_ref, depends_on, subject, backing_issue, replacement_of"},"id":6,"jsonrpc":"2.0"}
    {"id":7,"jsonrpc":"2.0","result":{"content":[{"text":"{\"claim_handle\":\"h1\",\"intent_id\":\"intent:01010101-0101-4101-8101-010101010101\",\"status\":\"staged\"}","type":"text"}],"isError":false}}
    {"error":{"code":-32603,"message":"policy_invalid: the pool is not installed"},"id":8,"jsonrpc":"2.0"}
    {"id":9,"jsonrpc":"2.0","result":{"content":[{"text":"{\"claim_handle\":\"h1\",\"intent_id\":\"intent:02020202-0202-4202-8202-020202020202\",\"status\":\"staged\"}","type":"text"}],"isError":false}}
    {"error":{"code":-32603,"message":"work_queue_finish_conflict: this Claim's finish was staged with another outcome or keep_open"},"id":10,"jsonrpc":"2.0"}
    {"error":{"code":-32601,"message":"there is no such tool; did you mean work_queue_claim_finish?"},"id":11,"jsonrpc":"2.0"}
    {"id":12,"jsonrpc":"2.0","result":{}}
    {"error":{"code":-32601,"message":"there is no such method"},"id":13,"jsonrpc":"2.0"}
    "#);
}

fn tools(role: &'static str, snapshot: &Value) -> Vec<String> {
    let desk = Desk::new(role, snapshot);
    let answers = desk.answers(line(1, "tools/list", &json!({})).as_bytes());
    let tools = answers[0]["result"]["tools"].as_array().unwrap();
    for tool in tools {
        // What is listed is what is known: a JSON Schema of closed objects, with a description for every argument.
        let schema = &tool["inputSchema"];
        jsonschema::meta::validate(schema).unwrap();
        assert_eq!(schema["additionalProperties"], false);
        for (name, property) in schema["properties"].as_object().unwrap() {
            assert!(property["description"].is_string(), "{name}");
        }
        assert!(tool["description"].as_str().unwrap().len() > 50);
    }
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

const READS: [&str; 2] = ["work_queue_read", "work_queue_explain"];
const WRITES: [&str; 3] = ["work_queue_submit", "work_queue_dispatch_next", "work_queue_claim_finish"];

/// S-510, O-215, O-216: an observer has read and explain and nothing that stages; dispatchers and workers have five tools,
/// in this order, whatever the queue.
#[test]
fn tools_follow_the_role() {
    let all = [READS.as_slice(), &WRITES].concat();
    assert_eq!(tools("dispatcher", &dispatcher()), all);
    assert_eq!(tools("dispatcher", &absent("dispatcher")), all);
    assert_eq!(tools("worker", &worker(1).0), all);
    assert_eq!(tools("observer", &absent("observer")), READS);
    assert_eq!(tools("observer", &dispatcher()), READS);
    let desk = Desk::new("observer", &dispatcher());
    for tool in WRITES {
        let (code, message) = desk.call(tool, &json!({"outcome": "completed"})).unwrap_err();
        assert_eq!((code, message.starts_with("work_queue_observer_read_only")), (-32601, true), "{message}");
    }
    assert!(!desk.staging().exists());
    desk.ask("work_queue_read", &json!({}));
}

/// Decision 66: which version is answered to which, with `initialize` or without it.
#[test]
fn versions_are_negotiated() {
    let desk = Desk::new("dispatcher", &absent("dispatcher"));
    for (asked, told) in [
        (json!({"protocolVersion": "2024-11-05"}), "2024-11-05"),
        (json!({"protocolVersion": "2025-03-26"}), "2025-06-18"),
        (json!({"protocolVersion": "2025-06-18"}), "2025-06-18"),
        (json!({"protocolVersion": "2025-11-25"}), "2025-11-25"),
        (json!({"protocolVersion": "2099-01-01"}), "2025-11-25"),
        (json!({"protocolVersion": 7}), "2024-11-05"),
        (json!({}), "2024-11-05"),
        (json!(null), "2024-11-05"),
    ] {
        let answers = desk.answers(line(1, "initialize", &asked).as_bytes());
        assert_eq!(answers[0]["result"]["protocolVersion"], told, "{asked}");
        assert_eq!(answers[0]["result"]["serverInfo"], json!({"name": "work-queue", "version": "3.0.0"}));
    }
    let answers = desk.answers(line(1, "server/discover", &json!({})).as_bytes());
    assert_eq!(answers[0]["error"]["code"], -32601);
}

/// What hostile or clumsy clients send: how many lines answer it, and the error code of the first.
fn hostile() -> Vec<(&'static str, Vec<u8>, usize, Option<i64>)> {
    let text = |text: &str| text.as_bytes().to_vec();
    let call = |arguments: &str| {
        text(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"work_queue_submit","arguments":{arguments}}}}}"#
        ))
    };
    let payload = |inner: &str| call(&format!(r#"{{"nodes":[{{"payload":{inner}}}]}}"#));
    let long = format!(r#"{{"task":"{}"}}"#, "x".repeat(200 * 1024));
    vec![
        ("garbage", text("garbage"), 0, None),
        ("blank", text("   "), 0, None),
        ("empty", text(""), 0, None),
        ("half an object", text(r#"{"jsonrpc":"2.0","id":1,"method":"pi"#), 0, None),
        ("bad UTF-8", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\xff\"}".to_vec(), 0, None),
        ("NUL bytes", vec![0; 64], 0, None),
        ("a batch", text(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#), 0, None),
        ("a positional array", text(r#"["2.0",1,"ping",null]"#), 0, None),
        ("an empty batch", text("[]"), 0, None),
        ("a string", text(r#""ping""#), 0, None),
        ("null", text("null"), 0, None),
        ("no jsonrpc", text(r#"{"id":1,"method":"ping"}"#), 0, None),
        ("jsonrpc 1.0", text(r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#), 0, None),
        ("jsonrpc a number", text(r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#), 0, None),
        ("two ids", text(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#), 0, None),
        ("a notification", text(r#"{"jsonrpc":"2.0","method":"tools/call"}"#), 0, None),
        ("a null id", text(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#), 0, None),
        ("an unknown notification", text(r#"{"jsonrpc":"2.0","method":"notifications/other"}"#), 0, None),
        ("a notification with an id", text(r#"{"jsonrpc":"2.0","id":3,"method":"notifications/x"}"#), 0, None),
        ("an id that is an object", text(r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#), 1, Some(-32600)),
        ("no method", text(r#"{"jsonrpc":"2.0","id":1}"#), 1, Some(-32600)),
        ("method a number", text(r#"{"jsonrpc":"2.0","id":1,"method":7}"#), 1, Some(-32600)),
        ("an unknown method", text(r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#), 1, Some(-32601)),
        ("params null", text(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":null}"#), 1, None),
        ("params an array", text(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[1]}"#), 1, Some(-32602)),
        (
            "params null for a call",
            text(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":null}"#),
            1,
            Some(-32602),
        ),
        ("no tool", text(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":""}}"#), 1, Some(-32602)),
        (
            "a tool by number",
            text(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":1}}"#),
            1,
            Some(-32602),
        ),
        ("arguments a list", call("[]"), 1, Some(-32602)),
        ("arguments a string", call(r#""{}""#), 1, Some(-32602)),
        ("a fraction", payload(r#"{"n":1.5}"#), 1, Some(-32602)),
        ("an exponent", payload(r#"{"n":1e3}"#), 1, Some(-32602)),
        ("negative zero", payload(r#"{"n":-0}"#), 1, Some(-32602)),
        ("2^53", payload(r#"{"n":9007199254740992}"#), 1, Some(-32602)),
        ("a lone surrogate", payload(r#"{"s":"\ud800"}"#), 1, Some(-32602)),
        ("a repeated key", payload(r#"{"a":1,"a":1}"#), 1, Some(-32602)),
        ("a key repeated by an escape", payload(r#"{"a":1,"\u0061":1}"#), 1, Some(-32602)),
        ("65 levels", payload(&format!("{}1{}", r#"{"a":"#.repeat(65), "}".repeat(65))), 1, Some(-32602)),
        ("20000 levels", payload(&format!("{}{}", "[".repeat(20_000), "]".repeat(20_000))), 1, Some(-32602)),
        ("20000 items", payload(&format!("{{\"a\":[{}0]}}", "0,".repeat(20_000))), 1, Some(-32602)),
        ("200 KiB of payload", payload(&long), 1, Some(-32603)),
        ("a byte order mark", text("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"), 0, None),
        ("beyond the bound", vec![b' '; 11 * 1024 * 1024], 0, None),
    ]
}

/// O-006: whatever a client sends, in one line or over many, the next good request is answered, and nothing is staged
/// by it. A line may end with CR LF.
#[test]
fn hostile_input_ends_nothing() {
    let desk = Desk::new("dispatcher", &dispatcher());
    let mut all = Vec::new();
    let mut expected = 0;
    for (what, bytes, count, code) in hostile() {
        for end in [b"\n".as_slice(), b"\r\n"] {
            let input = [bytes.as_slice(), end, PING].concat();
            let answers = desk.answers(&input);
            assert_eq!(answers.len(), count + 1, "{what}: {answers:?}");
            assert_eq!(answers[count], json!({"jsonrpc": "2.0", "id": "after", "result": {}}), "{what}");
            if count == 1 {
                assert_eq!(answers[0]["error"]["code"].as_i64(), code, "{what}: {answers:?}");
            }
            all.extend_from_slice(&input);
            expected += count + 1;
        }
    }
    // All of it once more on one line, so to speak: one process, one conversation.
    let ran = desk.run(&["mcp"], &all);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_eq!(ran.out.lines().count(), expected);
    assert!(!desk.intents().exists(), "something was staged");
}

/// A payload of 200 KiB is read, and refused by the Policy's limit alone; as an answer it is shown to nobody.
#[test]
fn long_messages_are_read() {
    let desk = Desk::new("dispatcher", &absent("dispatcher"));
    let secret = "s3cret-".repeat(30 * 1024);
    let answer = desk.ask("work_queue_submit", &json!({"nodes": [{"payload": {"task": secret}}]}));
    assert_eq!(answer["status"], "staged");
    let strict = Desk::new("dispatcher", &dispatcher());
    let (code, message) =
        strict.call("work_queue_submit", &json!({"nodes": [{"payload": {"task": secret}}]})).unwrap_err();
    assert_eq!((code, message.split(':').next().unwrap()), (-32603, "resource_limit"));
    assert!(!message.contains("s3cret"));
}

/// An id is given back as it was written, whatever its size or kind.
#[test]
fn ids_are_echoed() {
    let desk = Desk::new("dispatcher", &absent("dispatcher"));
    for id in ["7", "-3", "1.50", "123456789012345678901234567890", "\"a\\u0041\"", "\"\""] {
        let told = desk.serve(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n").as_bytes());
        assert_eq!(told, format!("{{\"id\":{id},\"jsonrpc\":\"2.0\",\"result\":{{}}}}\n"));
    }
}

/// Decision 67: an unfinished last line is not executed, and the end of the input is the end, with status 0.
#[test]
fn an_unfinished_line_is_not_executed() {
    let desk = Desk::new("dispatcher", &absent("dispatcher"));
    let call = line(1, "tools/call", &json!({"name": "work_queue_submit", "arguments": {"nodes": [{"payload": {}}]}}));
    let ran = desk.run(&["mcp"], call.trim_end().as_bytes());
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""));
    assert!(!desk.intents().exists());
    let ran = desk.run(&["mcp"], b"");
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""));
}

/// Nobody reads the server's standard error, debug lines or not, and still every request is answered, each as soon as it
/// was sent.
#[test]
fn an_undrained_stderr_blocks_nothing() {
    let desk = Desk::new("dispatcher", &dispatcher());
    let mut child = desk
        .command(&["mcp"])
        .env("DEBUG", "*")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for id in 0..2_000 {
        input.write_all(b"noise\n").unwrap();
        let params = json!({"name": "work_queue_explain", "arguments": {"work": "nothing"}});
        input.write_all(line(id, "tools/call", &params).as_bytes()).unwrap();
        let mut answer = String::new();
        output.read_line(&mut answer).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&answer).unwrap()["id"], id);
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

/// S-487: a line beyond the bound is passed over without being held: a line of 400 MiB costs the server no more memory
/// than its bound.
#[test]
fn an_oversized_line_is_not_held() {
    let desk = Desk::new("dispatcher", &absent("dispatcher"));
    let mut child = desk.command(&["mcp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let block = vec![b'x'; 1024 * 1024];
    for _ in 0..400 {
        input.write_all(&block).unwrap();
    }
    input.write_all(b"\n").unwrap();
    input.write_all(PING).unwrap();
    let mut answer = String::new();
    output.read_line(&mut answer).unwrap();
    assert!(answer.contains("after"), "{answer}");
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 96 * 1024, "the server's memory grew to {peak} kB");
    drop(input);
    assert!(child.wait().unwrap().success());
}

/// Decision 75: without a role, or with an unknown one, status 2; with a snapshot that is refused, status 3, one line
/// that quotes nothing, and no answer.
#[test]
fn a_server_that_cannot_start_says_so_once() {
    let desk = Desk::new("dispatcher", &dispatcher());
    for role in ["", "producer", "Observer", "worker "] {
        let output = crate::support::git::feed(
            {
                let mut command = desk.command(&["mcp"]);
                command.env("GH_AW_WORK_QUEUE_ROLE", role);
                command
            },
            PING,
        );
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{role}");
    }
    std::fs::write(desk.snapshot(), "{\"secret\":\"payload\"}").unwrap();
    for arguments in [&["mcp"][..], &["tool", "work_queue_read", "{}"]] {
        let ran = desk.run(arguments, PING);
        assert_eq!((ran.code, ran.out.as_str()), (3, ""), "{ran:?}");
        assert_eq!(ran.err, "server.start.failed: the activation snapshot is refused (work_queue_snapshot_invalid)\n");
    }
}
