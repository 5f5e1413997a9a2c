//! The JSON Schema of the YAML, made from the types that read it.
//!
//! It says what can be said of one value by itself: keys, types, words, ranges. What concerns two places
//! of a policy (a name that is taken, a bucket that there is not) is left to
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

/// The name of a header: a token of HTTP.
pub(super) const HEADER_NAME: &str = "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$";

/// The name of a model, which is free text.
pub(super) const NOT_BLANK: &str = r"\S";

/// What requests may be let past by.
pub(super) const PATH_OR_METHOD: &str = "^(/|[A-Z]+$)";

impl PolicyConfig {
    /// The JSON Schema (draft 7) of the YAML, for editors: indented, with a newline at the end.
    ///
    /// Keys, types, words, ranges and defaults are those that loading a policy knows, and each key
    /// has a description. What a schema cannot say (that a name is defined, that the classes fill the
    /// matrix) is found when the policy is loaded, as is a `4.0` for a whole number. In two things the
    /// schema is stricter: a text that YAML reads as a number or a switch has to be quoted, and a key
    /// without a value is there for those that need or forbid it.
    ///
    /// A file that begins with `# yaml-language-server: $schema=policy.schema.json` is completed
    /// and checked by editors that run the YAML language server; the repository has the schema as
    /// `examples/policy.schema.json`.
    ///
    /// ```
    /// # use tower_policy_queue::PolicyConfig;
    /// let schema = PolicyConfig::json_schema();
    /// assert!(schema.contains("policy_classes"));
    /// ```
    pub fn json_schema() -> String {
        // Newer drafts are not what the editors' language server reads best.
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

/// Stands for the map of statuses: it knows its keys.
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

/// Puts each paragraph on one line: editors show the line breaks of a comment as they are.
fn unwrap_lines(schema: &mut Schema) {
    if let Some(Value::String(text)) = schema.get_mut("description") {
        let paragraphs = text.split("\n\n").map(|lines| lines.replace('\n', " "));
        *text = paragraphs.collect::<Vec<_>>().join("\n\n");
    }
}

// ===== Keys that go together =====

/// The keys of the root's own classes come together or not at all, and a list goes by one name.
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
