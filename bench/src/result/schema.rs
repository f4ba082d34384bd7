//! `bench/result.schema.json` is what the code writes; `SCHEMA_WRITE=1` writes it anew.

use std::path::Path;

use schemars::generate::SchemaSettings;

use super::{RunResult, SCHEMA};

fn generated() -> String {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<RunResult>();
    schema.insert("title".into(), format!("result.json of ringgate-bench, {SCHEMA}").into());
    let mut text = serde_json::to_string_pretty(&schema).unwrap();
    text.push('\n');
    text
}

#[test]
fn the_schema_file_is_what_the_code_writes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("result.schema.json");
    let generated = generated();
    if std::env::var_os("SCHEMA_WRITE").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    assert!(
        kept == generated,
        "bench/result.schema.json is not what the code writes: SCHEMA_WRITE=1 cargo test -p ringgate-bench schema"
    );
}
