//! Refuses what YAML allows but a policy does not.
//!
//! A walk over the whole document before it is deserialized, to find mistakes that would otherwise go
//! unnoticed: a repeated key, of which the parser would keep the last; a null key, which it would read as
//! text; a merge key `<<`, which would count as an ordinary key; a tag, which would be dropped, so that
//! `!env KEY` would become the text "KEY". It also bounds how far aliases can expand a small document, since
//! deserialization follows them just as this walk does.

use std::{
    cell::{Cell, RefCell},
    collections::HashSet,
    fmt,
    sync::Arc,
};

use serde::de::{self, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, Visitor};

use crate::config::{
    keys, names,
    path::{Path, Steps},
};

/// How deeply collections may nest. A policy needs five levels.
pub(super) const MAX_DEPTH: usize = 64;

/// A walk over a document, and why it ended in an error.
pub(super) struct Walk {
    /// How many values plus bytes of text may still follow.
    budget: Cell<usize>,
    refusal: RefCell<Option<Refusal>>,
}

/// Something that a walk refused.
pub(super) struct Refusal {
    pub(super) path: Steps,
    pub(super) message: String,
    /// The earlier key that it clashes with.
    pub(super) other: Option<Steps>,
}

impl Walk {
    /// A walk over at most `budget` values plus bytes of text, with aliases followed.
    pub(super) fn new(budget: usize) -> Self {
        Self {
            budget: Cell::new(budget),
            refusal: RefCell::new(None),
        }
    }

    /// Walks over the whole document. The error has a position if the format provides one.
    pub(super) fn over<'de, D: Deserializer<'de>>(&self, deserializer: D) -> Result<(), D::Error> {
        Value {
            walk: self,
            path: Path::Root,
            depth: 0,
        }
        .deserialize(deserializer)
    }

    /// What the walk refused, and where; `None` if the error was the format's own.
    pub(super) fn into_refusal(self) -> Option<Refusal> {
        self.refusal.into_inner()
    }

    fn refuse<E: de::Error>(&self, path: Path<'_>, message: String) -> E {
        self.refuse_beside(path, None, message)
    }

    fn refuse_beside<E: de::Error>(
        &self,
        path: Path<'_>,
        other: Option<Path<'_>>,
        message: String,
    ) -> E {
        let error = E::custom(&message);
        self.refusal.replace(Some(Refusal {
            path: path.steps(),
            message,
            other: other.map(|other| other.steps()),
        }));
        error
    }

    fn spend<E: de::Error>(&self, path: Path<'_>, amount: usize) -> Result<(), E> {
        match self.budget.get().checked_sub(amount) {
            Some(left) => {
                self.budget.set(left);
                Ok(())
            }
            None => Err(self.refuse(
                path,
                "the aliases (`*name`) up to here expand to more than a policy may contain"
                    .to_owned(),
            )),
        }
    }
}

/// A value to walk over.
#[derive(Clone, Copy)]
struct Value<'a> {
    walk: &'a Walk,
    path: Path<'a>,
    depth: usize,
}

/// A key to check.
struct Key<'a> {
    map: Value<'a>,
    seen: &'a mut HashSet<Arc<str>>,
}

// ===== impl Value =====

impl Value<'_> {
    fn nested<E: de::Error>(self) -> Result<usize, E> {
        self.walk.spend(self.path, 1)?;
        if self.depth == MAX_DEPTH {
            let message = format!("collections are nested more than {MAX_DEPTH} deep");
            return Err(self.walk.refuse(self.path, message));
        }
        Ok(self.depth + 1)
    }

    fn scalar<E: de::Error>(self, len: usize) -> Result<(), E> {
        self.walk.spend(self.path, len.saturating_add(1))
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<(), E> {
        self.scalar(0)
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<(), E> {
        self.scalar(0)
    }

    fn visit_i128<E: de::Error>(self, _: i128) -> Result<(), E> {
        self.scalar(0)
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<(), E> {
        self.scalar(0)
    }

    fn visit_u128<E: de::Error>(self, _: u128) -> Result<(), E> {
        self.scalar(0)
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<(), E> {
        self.scalar(0)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        self.scalar(text.len())
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        self.scalar(0)
    }

    fn visit_none<E: de::Error>(self) -> Result<(), E> {
        self.scalar(0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let depth = self.nested()?;
        let mut index = 0;
        loop {
            let path = self.path.index(index);
            if seq
                .next_element_seed(Value {
                    path,
                    depth,
                    ..self
                })?
                .is_none()
            {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let depth = self.nested()?;
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key_seed(Key {
            map: self,
            seen: &mut seen,
        })? {
            let path = self.path.entry(&key);
            map.next_value_seed(Value {
                path,
                depth,
                ..self
            })?;
        }
        Ok(())
    }

    // YAML tags are deserialized as enums.
    fn visit_enum<A: EnumAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        let message = "tags (`!name`) are not supported; write the value without one";
        Err(self.walk.refuse(self.path, message.to_owned()))
    }
}

// ===== impl Key =====

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Arc<str>;

    // Not `deserialize_any`: `1.10` and `1.1` are different keys. As an option, since a `~` would otherwise
    // be read as the text "~".
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Arc<str>, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for Key<'_> {
    type Value = Arc<str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_none<E: de::Error>(self) -> Result<Arc<str>, E> {
        let message = "a key is null; expected a name as the key".to_owned();
        Err(self.map.walk.refuse(self.map.path, message))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Arc<str>, D::Error> {
        deserializer.deserialize_str(self)
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<Arc<str>, E> {
        let Value { walk, path, .. } = self.map;
        walk.spend(path, key.len().saturating_add(1))?;
        let key = Arc::<str>::from(key);
        if &*key == "<<" {
            let message =
                "merge keys (`<<`) are not supported; write out the keys that it would add";
            return Err(walk.refuse(path.entry(&key), message.to_owned()));
        }
        if !self.seen.insert(Arc::clone(&key)) {
            let message = format!(
                "the key {} is repeated; remove one of the two",
                names::quote(&key)
            );
            let path = path.entry(&key);
            return Err(walk.refuse_beside(path, Some(path), message));
        }
        if let (Path::Root, Some(other)) = (path, keys::other_name(&key)) {
            if self.seen.contains(other) {
                let message = format!(
                    "is another name for {other}, which is also given; keep only one of them"
                );
                let (path, other) = (path.entry(&key), path.key(other));
                return Err(walk.refuse_beside(path, Some(other), message));
            }
        }
        Ok(key)
    }
}
