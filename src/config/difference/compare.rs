//! Compares two descriptions.

use std::collections::{HashMap, HashSet};

use super::{
    Kind, PolicyChange,
    thing::{Field, List, Thing},
    value::Value,
};
use crate::config::path::Path;

/// The changes between two policies.
pub(super) fn compare(before: &Thing<'_>, after: &Thing<'_>) -> Vec<PolicyChange> {
    let mut changes = Changes(Vec::new());
    changes.of_thing(Path::Root, before, after);
    changes.0
}

struct Changes(Vec<PolicyChange>);

impl Changes {
    // Both were described by the same function, so their parts line up.
    fn of_thing(&mut self, path: Path<'_>, before: &Thing<'_>, after: &Thing<'_>) {
        self.of_fields(path, &before.fields, &after.fields);
        for ((key, before), (_, after)) in before.groups.iter().zip(&after.groups) {
            self.of_fields(path.key(key), before, after);
        }
        for (before, after) in before.lists.iter().zip(&after.lists) {
            self.of_list(path.key(after.key), before, after);
        }
    }

    fn of_fields(&mut self, path: Path<'_>, before: &[Field<'_>], after: &[Field<'_>]) {
        for (before, after) in before.iter().zip(after) {
            debug_assert_eq!(before.key, after.key);
            if before.value != after.value {
                let path = path.key(after.key);
                self.changed(Kind::Changed, path, &before.value, &after.value);
            }
        }
    }

    fn of_list(&mut self, path: Path<'_>, before: &List<'_>, after: &List<'_>) {
        let old: HashMap<&str, &Thing<'_>> = before
            .things
            .iter()
            .map(|(name, thing)| (&**name, thing))
            .collect();
        for (name, thing) in &after.things {
            let path = path.entry(name);
            match old.get(&**name) {
                Some(old) => self.of_thing(path, old, thing),
                None => self.push(Kind::Added, path, None, Some(thing.summary())),
            }
        }

        let new: HashSet<&str> = after.names().collect();
        if after.ordered {
            // Only the things that stay are compared: what is added or removed reorders nothing.
            let before = before.names().filter(|name| new.contains(name)).collect();
            let after = after.names().filter(|name| old.contains_key(name));
            let (before, after) = (Value::Names(before), Value::Names(after.collect()));
            if before != after {
                self.changed(Kind::Reordered, path, &before, &after);
            }
        }
        for (name, thing) in &before.things {
            if !new.contains(&**name) {
                self.push(Kind::Removed, path.entry(name), Some(thing.summary()), None);
            }
        }
    }

    fn changed(&mut self, kind: Kind, path: Path<'_>, before: &Value<'_>, after: &Value<'_>) {
        let (before, after) = (before.shown_beside(after), after.shown_beside(before));
        self.push(kind, path, before, after);
    }

    fn push(&mut self, kind: Kind, path: Path<'_>, before: Option<String>, after: Option<String>) {
        self.0.push(PolicyChange {
            kind,
            path: path.steps().to_string(),
            before,
            after,
        });
    }
}
