//! The JSON Schema of the YAML, generated from the types that deserialize it.
//!
//! It covers what can be checked for a single value: keys, types, enumerations, ranges. What involves two
//! places of a policy (a name that is taken, a bucket that is not defined) is left to
//! [validation](super::validate).

use std::borrow::Cow;

use schemars::{
    JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema,
    transform::RecursiveTransform,
};
use serde_json::{Value, json};

use super::{
    Code, PolicyConfig,
    keys::ALIASES,
    schema::RawPolicy,
    value::{Flag, Map, Number, Whole},
};

/// What [`names::is_name`](super::names::is_name) accepts.
pub(super) const NAME: &str = "^[A-Za-z0-9_.-]+$";

/// A header name: an HTTP token.
pub(super) const HEADER_NAME: &str = "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$";

/// A model name, which is free text.
pub(super) const NOT_BLANK: &str = r"\S";

/// An entry of `bypass`.
pub(super) const PATH_OR_METHOD: &str = "^(/|[A-Z]+$)";

impl PolicyConfig {
    /// The JSON Schema (draft 7) of the YAML, for editors: indented, with a trailing newline.
    ///
    /// It has the same keys, types, enumerations, ranges and defaults as the loader, and a description of
    /// each key. What a schema cannot express (that a name is defined, that there is a class for each family
    /// and bucket) is checked only when the policy is loaded, as is a `4.0` in place of a whole number. The
    /// schema is stricter in two ways: text that YAML would read as a number or a boolean must be quoted, and
    /// a key without a value counts as present where other keys require or forbid it.
    ///
    /// Editors that run the YAML language server complete and check a file that begins with
    /// `# yaml-language-server: $schema=policy.schema.json`. The repository has the schema as
    /// `examples/policy.schema.json`.
    ///
    /// ```
    /// # use tower_policy_queue::PolicyConfig;
    /// let schema = PolicyConfig::json_schema();
    /// assert!(schema.contains("policy_classes"));
    /// ```
    pub fn json_schema() -> String {
        // The YAML language server supports draft 7 best.
        let schema = SchemaSettings::draft07()
            .with_transform(RecursiveTransform(unwrap_lines))
            .into_generator()
            .into_root_schema_for::<RawPolicy>();
        format!("{:#}\n", schema.as_value())
    }
}

// ===== Leaves =====

impl JsonSchema for Whole {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Whole".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": 0, "maximum": u64::MAX})
    }
}

impl JsonSchema for Number {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Number".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number"})
    }
}

impl JsonSchema for Flag {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Flag".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "boolean"})
    }
}

impl<V: JsonSchema> JsonSchema for Map<V> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("MapOf{}", V::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "propertyNames": {"pattern": NOT_BLANK},
            "additionalProperties": generator.subschema_for::<V>(),
        })
    }
}

/// Describes the map of statuses, whose keys are known.
pub(super) struct Statuses;

impl JsonSchema for Statuses {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Statuses".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let status = json!({"type": ["integer", "null"], "minimum": 400, "maximum": 599});
        let codes: Value = Code::ALL
            .map(|code| (code.as_str(), status.clone()))
            .into_iter()
            .collect();
        json_schema!({
            "type": "object",
            "properties": codes,
            "additionalProperties": false,
        })
    }
}

/// Joins the lines of each paragraph, since editors show line breaks in a description literally.
fn unwrap_lines(schema: &mut Schema) {
    if let Some(Value::String(text)) = schema.get_mut("description") {
        let paragraphs = text.split("\n\n").map(|lines| lines.replace('\n', " "));
        *text = paragraphs.collect::<Vec<_>>().join("\n\n");
    }
}

// ===== Keys that go together =====

/// The keys of the root profile come together or not at all, and no list appears under both its names.
pub(super) fn policy(schema: &mut Schema) {
    let mut twice = Vec::new();
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for (key, alias) in ALIASES {
            if let Some(list) = properties.get(key).cloned() {
                properties.insert(alias.to_owned(), list);
                twice.push(json!({"required": [key, alias]}));
            }
        }
    }
    schema.insert("not".to_owned(), json!({"anyOf": twice}));
    let dependencies = json!({
        "default_policy_family": ["uncached_isl_buckets", "policy_classes"],
        "uncached_isl_buckets": ["default_policy_family", "policy_classes"],
        "policy_classes": ["default_policy_family", "uncached_isl_buckets"],
    });
    schema.insert("dependencies".to_owned(), dependencies);
}

pub(super) fn policy_class(schema: &mut Schema) {
    let dependencies = json!({
        "policy_family": ["cache_bucket"],
        "cache_bucket": ["policy_family"],
        "busy_worker_ratio": {"anyOf": [
            {"required": ["prefill_busy_threshold"]},
            {"required": ["prefill_busy_threshold_frac"]},
        ]},
    });
    schema.insert("dependencies".to_owned(), dependencies);
}

pub(super) fn dominion(schema: &mut Schema) {
    let clients_told_apart = json!({"properties": {"fair_scheduling": {"not": {"const": false}}}});
    let dependencies = json!({
        "vram_gb": {"required": ["kind"], "properties": {"kind": {"const": "local"}}},
        "fair_unit": clients_told_apart,
        "max_queue_per_client": clients_told_apart,
    });
    schema.insert("dependencies".to_owned(), dependencies);
}
