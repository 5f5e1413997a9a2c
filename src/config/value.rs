//! Values that serde's own types read too loosely, or describe in Rust's words.

use std::{collections::HashSet, fmt, marker::PhantomData, sync::Arc};

use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor},
};

use super::names;

/// A whole number of any sign and size; its range is validation's matter.
#[derive(Clone, Copy)]
pub(super) struct Whole(pub(super) i128);

/// Any number, NaN and infinity included; its range is validation's matter.
#[derive(Clone, Copy)]
pub(super) struct Number(pub(super) f64);

/// A map whose keys the user chooses: in the order of the file, none twice.
pub(super) struct Map<V>(pub(super) Vec<(Arc<str>, V)>);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WholeVisitor;

        impl Visitor<'_> for WholeVisitor {
            type Value = Whole;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number")
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Whole, E> {
                Ok(Whole(value.into()))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Whole, E> {
                Ok(Whole(value.into()))
            }

            fn visit_i128<E: de::Error>(self, value: i128) -> Result<Whole, E> {
                Ok(Whole(value))
            }

            fn visit_u128<E: de::Error>(self, value: u128) -> Result<Whole, E> {
                Ok(Whole(i128::try_from(value).unwrap_or(i128::MAX)))
            }
        }

        deserializer.deserialize_any(WholeVisitor)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberVisitor;

        impl Visitor<'_> for NumberVisitor {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Number, E> {
                Ok(Number(value as f64))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Number, E> {
                Ok(Number(value as f64))
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Number, E> {
                Ok(Number(value))
            }
        }

        deserializer.deserialize_f64(NumberVisitor)
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
                while let Some(Key(key)) = map.next_key()? {
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

/// A key that is text.
struct Key(Arc<str>);

impl<'de> Deserialize<'de> for Key {
    // As an option, for YAML would read a `~` as the text "~" otherwise.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;

        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name as the key")
            }

            fn visit_str<E: de::Error>(self, key: &str) -> Result<Key, E> {
                Ok(Key(key.into()))
            }

            fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
                deserializer.deserialize_str(self)
            }
        }

        deserializer.deserialize_option(KeyVisitor)
    }
}
