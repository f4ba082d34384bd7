//! The schema files are what the code writes; `SCHEMA_WRITE=1` writes them anew.

use std::path::Path;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

use super::RunResult;
use crate::compare::Comparison;

fn generated<T: JsonSchema>(title: &str) -> String {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    schema.insert("title".into(), title.into());
    let mut text = serde_json::to_string_pretty(&schema).unwrap();
    text.push('\n');
    text
}

fn is_kept(file: &str, generated: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("SCHEMA_WRITE").is_some() {
        std::fs::write(&path, generated).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == generated,
        "bench/{file} is not what the code writes: SCHEMA_WRITE=1 cargo test -p ringgate-bench schema"
    );
}

#[test]
fn the_schema_file_is_what_the_code_writes() {
    let title = format!("result.json of ringgate-bench, {}", super::SCHEMA);
    is_kept("result.schema.json", &generated::<RunResult>(&title));
}

#[test]
fn the_schema_file_of_comparisons_is_what_the_code_writes() {
    let title = format!("compare.json of ringgate-bench, {}", crate::compare::SCHEMA);
    is_kept("compare.schema.json", &generated::<Comparison>(&title));
}
