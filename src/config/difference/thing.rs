//! The parts of a description: things with names and fields.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use super::value::Value;

/// How an absent value is shown.
pub(super) const NONE: &str = "(none)";

/// Something that has fields: a class, a dominion, the policy itself.
#[derive(Default)]
pub(super) struct Thing<'a> {
    pub(super) fields: Vec<Field<'a>>,
    /// Fields nested below a key.
    pub(super) groups: Vec<(&'static str, Vec<Field<'a>>)>,
    pub(super) lists: Vec<List<'a>>,
}

pub(super) struct Field<'a> {
    pub(super) key: &'static str,
    pub(super) value: Value<'a>,
    /// Whether a summary leaves it out, since it is the default.
    implied: bool,
}

/// Things by name, in the order of the policy.
pub(super) struct List<'a> {
    pub(super) key: &'static str,
    /// Whether the order has a meaning that no field shows.
    pub(super) ordered: bool,
    pub(super) things: Vec<(Arc<str>, Thing<'a>)>,
}

// ===== impl Thing =====

impl<'a> Thing<'a> {
    pub(super) fn of(fields: Vec<Field<'a>>) -> Self {
        Self {
            fields,
            ..Self::default()
        }
    }

    /// Summarizes a thing that was added or removed.
    pub(super) fn summary(&self) -> String {
        let said = self.fields.iter().filter(|field| !field.implied);
        let fields = said.map(|field| match &field.value {
            names @ Value::Names(_) => format!("{} [{}]", field.key, names.shown()),
            value => format!("{} {}", field.key, value.shown()),
        });
        let lists = self.lists.iter().map(|list| {
            let names = Value::Names(list.names().collect());
            format!("{} [{}]", list.key, names.shown())
        });
        let all: Vec<_> = fields.chain(lists).collect();
        if all.is_empty() {
            return "(defaults)".to_owned();
        }
        all.join(", ")
    }
}

// ===== impl List =====

impl<'a> List<'a> {
    pub(super) fn new(
        key: &'static str,
        ordered: bool,
        things: impl IntoIterator<Item = (Arc<str>, Thing<'a>)>,
    ) -> Self {
        Self {
            key,
            ordered,
            things: things.into_iter().collect(),
        }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.things.iter().map(|(name, _)| &**name)
    }
}

// ===== impl Field =====

impl<'a> Field<'a> {
    pub(super) fn new(key: &'static str, value: Value<'a>, implied: bool) -> Self {
        Self {
            key,
            value,
            implied,
        }
    }

    pub(super) fn word(key: &'static str, word: &'static str, implied: bool) -> Self {
        Self::new(key, Value::Word(Cow::Borrowed(word)), implied)
    }

    pub(super) fn always(key: &'static str, value: impl ToString) -> Self {
        Self::new(key, Value::Word(Cow::Owned(value.to_string())), false)
    }

    pub(super) fn flag(key: &'static str, flag: bool, default: bool) -> Self {
        let word = if flag { "true" } else { "false" };
        Self::word(key, word, flag == default)
    }

    /// A value that is optional; `absent` is shown in its absence.
    pub(super) fn optional(
        key: &'static str,
        value: Option<impl ToString>,
        absent: &'static str,
    ) -> Self {
        match value {
            Some(value) => Self::always(key, value),
            None => Self::word(key, absent, true),
        }
    }

    pub(super) fn text(key: &'static str, text: Option<&'a str>) -> Self {
        match text {
            Some(text) => Self::new(key, Value::Text(text), false),
            None => Self::word(key, NONE, true),
        }
    }

    pub(super) fn secret(key: &'static str, secret: Option<&'a str>) -> Self {
        Self::new(key, Value::Secret(secret), secret.is_none())
    }

    /// Names whose order and repetition mean nothing.
    pub(super) fn set(key: &'static str, names: impl IntoIterator<Item = &'a str>) -> Self {
        let names: BTreeSet<&str> = names.into_iter().collect();
        let implied = names.is_empty();
        Self::new(key, Value::Names(names.into_iter().collect()), implied)
    }
}
