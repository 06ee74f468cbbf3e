//! Tests of all JSON objects: each says where it comes from and is what the schema says, and every
//! member of it is documented.

use std::path::Path;

use crate::tcpx::{Tcpx, schema};
use serde_json::Value;

/// Members whose own members are names of other things.
const MAPS: [&str; 1] = ["errors"];

fn members(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                names.push(name.clone());
                if !MAPS.contains(&name.as_str()) {
                    members(value, names);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| members(item, names)),
        _ => {}
    }
}

#[test]
fn every_member_is_documented_and_every_object_says_where_it_comes_from() {
    let file = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
        std::fs::read_to_string(path).unwrap()
    };
    let page = file("json.md");
    let schema: Value = serde_json::from_str(&file("json.schema.json")).unwrap();
    let small = ["perf", "--size", "64K", "--iters", "3"];
    for words in [
        &["doctor"][..],
        &["doctor", "--env"],
        &["env"],
        &["devices"],
        &["explain", "TCPX-101"],
        &["explain", "TCPX_CHANNELS"],
        &["explain", "NCCL_PROTO"],
        &["conformance", "--list"],
        &["conformance", "--only", "abi", "--plugin", "soft"],
        &[&small[..], &["--baseline"]].concat(),
        &["perf", "--latency", "--size", "64", "--iters", "50", "--baseline"],
        &["perf", "--messages", "10", "--iters", "3", "--scattered"],
        &[&small[..], &["--op", "write"]].concat(),
        &[&small[..], &["--op", "read", "--latency"]].concat(),
        &["perf", "--sweep=4K..64K", "--iters", "1", "--warmup", "0"],
        &["perf", "--bidir", "--duration", "0.1", "--size", "64K"],
        &["perf", "--latency", "--notify", "--iters", "9"],
        &["perf", "--pairs", "--nic", "lo", "--size", "4K", "--iters", "2"],
        &["perf", "--encrypt", "--size", "4K", "--iters", "2"],
        &["transfer"],
        &["connect"],
    ] {
        let finished = Tcpx::new(&[words, &["--json"]].concat()).run();
        let object: Value = serde_json::from_str(&finished.stdout)
            .unwrap_or_else(|error| panic!("{words:?}: {error}: {finished}"));
        assert_eq!(object["tcpx"]["version"], env!("CARGO_PKG_VERSION"), "{words:?}");
        assert!(object["tcpx"]["unix_time"].as_u64().is_some_and(|time| time > 1_600_000_000));
        assert!(object["tcpx"]["host"].is_string());
        let is_of_variants = ["--pairs", "--encrypt"].iter().any(|flag| words.contains(flag));
        let is_run = words[0] == "perf" && !is_of_variants;
        assert!(object["seed"].is_string() || !is_run, "{words:?}");
        let definition = match words {
            ["doctor", "--env"] => "doctor_env",
            ["conformance", "--list"] => "conformance_list",
            ["perf", "--pairs" | "--encrypt", ..] => "perf_variants",
            words => words[0],
        };
        schema::check(&schema, definition, &object)
            .unwrap_or_else(|error| panic!("{words:?}: {error}"));
        let mut names = Vec::new();
        members(&object, &mut names);
        for name in names {
            assert!(page.contains(&format!("`{name}`")), "{words:?}: {name} is not on the page");
        }
    }
}

#[test]
fn members_outside_the_schema_are_found() {
    let schema = serde_json::json!({ "$defs": {
        "a": { "type": "object", "required": ["n"], "additionalProperties": false,
               "properties": { "n": { "$ref": "#/$defs/b" }, "m": { "items": { "enum": [1] } } } },
        "b": { "anyOf": [{ "type": "null" }, { "type": "integer", "minimum": 2 }] },
    } });
    let check = |value| schema::check(&schema, "a", &value);
    for good in [serde_json::json!({ "n": 2 }), serde_json::json!({ "n": null, "m": [1, 1] })] {
        assert_eq!(check(good), Ok(()));
    }
    for bad in [
        serde_json::json!([]),
        serde_json::json!({}),
        serde_json::json!({ "n": 1 }),
        serde_json::json!({ "n": 2.5 }),
        serde_json::json!({ "n": 2, "more": 1 }),
        serde_json::json!({ "n": 2, "m": [1, 2] }),
    ] {
        assert!(check(bad.clone()).is_err(), "{bad}");
    }
}
