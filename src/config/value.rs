//! Value types for what serde's own types accept too loosely or too strictly, or describe in Rust's terms.

use std::{collections::HashSet, fmt, marker::PhantomData, sync::Arc};

use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor},
};

use super::names;

/// A scalar of any type. Validation checks its type, as well as its range, so that a value of the wrong type
/// does not hide the other mistakes.
pub(super) enum Scalar {
    Whole(i128),
    Float(f64),
    Flag(bool),
    Text(String),
}

/// A value that should be a whole number.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Whole(pub(super) Scalar);

/// A value that should be a number, including NaN and infinity.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Number(pub(super) Scalar);

/// A value that should be `true` or `false`.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Flag(pub(super) Scalar);

/// A map whose keys the user chooses, in the order of the file and without duplicates.
pub(super) struct Map<V>(pub(super) Vec<(Arc<str>, V)>);

impl Scalar {
    /// The value as a number, if it is one.
    pub(super) fn as_number(&self) -> Option<f64> {
        match *self {
            Self::Whole(value) => Some(value as f64),
            Self::Float(value) => Some(value),
            Self::Flag(_) | Self::Text(_) => None,
        }
    }
}

/// Formats the value for a message.
impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => value.fmt(f),
            // With the decimal point, to distinguish it from a whole number.
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Flag(value) => value.fmt(f),
            Self::Text(text) => f.write_str(&names::quote(text)),
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ScalarVisitor;

        impl Visitor<'_> for ScalarVisitor {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a single value")
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Scalar, E> {
                Ok(Scalar::Whole(value.into()))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Scalar, E> {
                Ok(Scalar::Whole(value.into()))
            }

            fn visit_i128<E: de::Error>(self, value: i128) -> Result<Scalar, E> {
                Ok(Scalar::Whole(value))
            }

            fn visit_u128<E: de::Error>(self, value: u128) -> Result<Scalar, E> {
                Ok(Scalar::Whole(i128::try_from(value).unwrap_or(i128::MAX)))
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Scalar, E> {
                Ok(Scalar::Float(value))
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Scalar, E> {
                Ok(Scalar::Flag(value))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(names::cut(text).into_owned()))
            }
        }

        deserializer.deserialize_any(ScalarVisitor)
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Map<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor<V>(PhantomData<V>);

        impl<'de, V: Deserialize<'de>> Visitor<'de> for EntriesVisitor<V> {
            type Value = Map<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Map<V>, A::Error> {
                let mut seen = HashSet::new();
                let mut entries = Vec::new();
                while let Some(key) = map.next_key::<Arc<str>>()? {
                    if !seen.insert(Arc::clone(&key)) {
                        let key = names::quote(&key);
                        return Err(de::Error::custom(format_args!("the key {key} is repeated")));
                    }
                    entries.push((key, map.next_value()?));
                }
                Ok(Map(entries))
            }
        }

        deserializer.deserialize_map(EntriesVisitor(PhantomData))
    }
}
