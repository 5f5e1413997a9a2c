//! Unknown keys, and which known keys they may have been meant to be.
//!
//! They are skipped and collected while a policy is read, so that a misspelt key is reported together with
//! all other mistakes.

use serde::{Deserialize, Deserializer, de};

use super::{
    names,
    path::{Step, Steps},
    schema::{
        RawBucket, RawClass, RawDominion, RawEndpoint, RawHeaders, RawLocalModel, RawPolicy,
        RawProfile, RawSelection,
    },
};

/// The keys with another name in TOML: first the schema's name, then the alias.
pub(super) const ALIASES: [(&str, &str); 4] = [
    ("dominions", "dominion"),
    ("endpoints", "endpoint"),
    ("local_models", "local_model"),
    ("profiles", "profile"),
];

/// How many unknown keys are compared with the known ones, which is slow if there are many.
const COMPARED: usize = 100;

/// The least similarity, from 0 to 1, of an unknown key and the known one that is suggested for it.
const ALIKE: f64 = 0.85;

/// The other name of a top-level key that has two.
pub(super) fn other_name(key: &str) -> Option<&'static str> {
    ALIASES.iter().find_map(|&(name, alias)| match key {
        _ if key == name => Some(alias),
        _ if key == alias => Some(name),
        _ => None,
    })
}

/// Deserializes a value, and returns the unknown keys that were skipped.
pub(super) fn read<'de, T, D>(deserializer: D) -> Result<(T, Vec<Steps>), D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let mut unknown = Vec::new();
    let read = serde_ignored::deserialize(deserializer, |path| {
        let mut steps = Vec::new();
        walk(&path, &mut steps);
        unknown.push(Steps(steps));
    })?;
    Ok((read, unknown))
}

fn walk(path: &serde_ignored::Path<'_>, steps: &mut Vec<Step>) {
    use serde_ignored::Path;
    match path {
        Path::Root => {}
        Path::Seq { parent, index } => {
            walk(parent, steps);
            steps.push(Step::Index(*index));
        }
        Path::Map { parent, key } => {
            walk(parent, steps);
            steps.push(Step::Entry(key.as_str().into()));
        }
        Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => walk(parent, steps),
    }
}

/// The path and message for an unknown key, after `before` others.
///
/// A key with a `:` in it is most likely a key and its value, which may be a secret, without the space
/// between them. The message then shows only the part before the `:`, and the path is that of the map.
pub(super) fn unknown(mut steps: Steps, before: usize) -> (Steps, String) {
    let Some((Step::Entry(key), parents)) = steps.0.split_last() else {
        return (steps, "unknown field".to_owned());
    };
    let Some((key, _)) = key.split_once(':') else {
        let message = misspelt(key, parents, before);
        return (steps, message);
    };
    let message = format!(
        "unknown field `{}:...`; the `:` after a key must be followed by a space",
        names::cut(key).escape_debug()
    );
    steps.0.pop();
    (steps, message)
}

fn misspelt(key: &str, parents: &[Step], before: usize) -> String {
    let mut message = format!("unknown field `{}`", names::cut(key).escape_debug());
    if before >= COMPARED {
        return message;
    }
    let known = known(parents);
    let key = names::cut(key).to_lowercase();
    let likeness = |known: &&str| strsim::jaro_winkler(&key, known);
    let nearest = known
        .iter()
        .copied()
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
        .filter(|nearest| likeness(nearest) >= ALIKE);
    match nearest {
        Some(nearest) => message.push_str(&format!("; did you mean `{nearest}`?")),
        None => message.push_str(&format!("; the keys here are `{}`", known.join("`, `"))),
    }
    // A line that is not indented far enough ends up among the top-level keys.
    let outermost = nearest.is_none() && parents.is_empty();
    if let Some(owner) = outermost.then(|| inner_with(&key)).flatten() {
        let hint = "is the line indented far enough?";
        message.push_str(&format!("; {owner} has such a key: {hint}"));
    }
    message
}

/// Which of the nested maps has a key of this name.
fn inner_with(key: &str) -> Option<&'static str> {
    let maps = [
        ("a policy class", fields::<RawClass>()),
        ("a dominion", fields::<RawDominion>()),
        ("an endpoint", fields::<RawEndpoint>()),
        ("a local model", fields::<RawLocalModel>()),
        ("a bucket", fields::<RawBucket>()),
        ("headers", fields::<RawHeaders>()),
    ];
    let with = maps.iter().find(|(_, keys)| keys.contains(&key));
    with.map(|&(owner, _)| owner)
}

/// The keys that the map at a path may have.
fn known(steps: &[Step]) -> Vec<&'static str> {
    let map = match steps {
        [] => fields::<RawPolicy>(),
        [.., Step::Entry(map)] if **map == *"headers" => fields::<RawHeaders>(),
        [.., Step::Entry(list), Step::Index(_)] => match &**list {
            "uncached_isl_buckets" => fields::<RawBucket>(),
            "policy_classes" => fields::<RawClass>(),
            "dominions" | "dominion" => fields::<RawDominion>(),
            "endpoints" | "endpoint" => fields::<RawEndpoint>(),
            "local_models" | "local_model" => fields::<RawLocalModel>(),
            _ => fields::<RawSelection>(),
        },
        _ => fields::<RawProfile>(),
    };
    // They are aliases only at the top level: an endpoint has a key `dominion` too.
    let is_alias = |key: &&str| steps.is_empty() && ALIASES.iter().any(|(_, alias)| alias == key);
    map.iter().copied().filter(|key| !is_alias(key)).collect()
}

/// The keys of a type, as it passes them to its deserializer.
fn fields<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    struct Asked<'a>(&'a mut &'static [&'static str]);

    impl<'de> Deserializer<'de> for Asked<'_> {
        type Error = de::value::Error;

        fn deserialize_struct<V: de::Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            visitor: V,
        ) -> Result<V::Value, Self::Error> {
            *self.0 = fields;
            self.deserialize_any(visitor)
        }

        fn deserialize_any<V: de::Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
            Err(de::Error::custom("nothing is read"))
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
            option unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier
            ignored_any
        }
    }

    let mut fields: &'static [&'static str] = &[];
    let _ = T::deserialize(Asked(&mut fields));
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_map_of_a_policy_knows_its_keys() {
        let key = |key: &str| Step::Entry(key.into());
        for (place, known_there) in [
            (vec![], "default_dominion"),
            (vec![key("models"), key("headers x")], "policy_classes"),
            (vec![key("policy_classes"), Step::Index(1)], "quantum"),
            (
                vec![
                    key("models"),
                    key("m"),
                    key("policy_classes"),
                    Step::Index(0),
                ],
                "quantum",
            ),
            (vec![key("uncached_isl_buckets"), Step::Index(0)], "bucket"),
            (vec![key("dominion"), Step::Index(0)], "max_queue"),
            (vec![key("endpoints"), Step::Index(0)], "base_url"),
            (vec![key("endpoints"), Step::Index(0)], "dominion"),
            (vec![key("local_models"), Step::Index(0)], "vram_gb"),
            (vec![key("profiles"), Step::Index(0)], "models"),
            (vec![key("headers")], "cached_tokens"),
        ] {
            assert!(known(&place).contains(&known_there), "{place:?}");
        }
        assert!(!known(&[]).contains(&"dominion"), "TOML's name for it");
    }
}
