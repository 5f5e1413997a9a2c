//! Finds the positions of values by their paths.
//!
//! Validation works on values and knows their paths; the parser knows positions, but reveals them only in
//! errors. So the path of each mistake is followed once more, in the text itself, and an error is raised at
//! its end.

use std::{cell::Cell, fmt};

use serde::{
    Deserializer,
    de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_yaml::Deserializer as Yaml;

use super::{MAX_BYTES, message};
use crate::config::{
    error::Place,
    keys::ALIASES,
    path::{Step, Steps},
};

/// How many bytes may be parsed again to find positions.
///
/// This keeps loading linear. It is enough for all mistakes of any file a person would write, and for the
/// first two in a file of the maximum size.
const MAX_LOCATING: usize = 2 * MAX_BYTES;

/// Finds the positions of values in a text.
pub(in crate::config) struct Locator<'a> {
    text: &'a str,
    left: usize,
}

impl<'a> Locator<'a> {
    /// A locator for a text that has been [parsed](super::parse).
    pub(in crate::config) fn new(text: &'a str) -> Self {
        Self {
            text,
            left: MAX_LOCATING,
        }
    }

    /// The position of the key or list element at `path`, or of its nearest ancestor if it is not there
    /// itself. `None` once the budget is spent.
    pub(in crate::config) fn locate(&mut self, path: &Steps) -> Option<Place> {
        self.left = self.left.checked_sub(self.text.len())?;
        let reached = Cell::new(false);
        let probe = Probe {
            steps: &path.0,
            reached: &reached,
        };
        let error = probe.deserialize(Yaml::from_str(self.text)).err()?;
        message::place(&error).filter(|_| reached.get())
    }
}

/// The position where the second document of a text begins, if it has one.
pub(super) fn second_document(text: &str) -> Option<Place> {
    let document = Yaml::from_str(text).nth(1)?;
    let reached = Cell::new(false);
    let probe = Probe {
        steps: &[],
        reached: &reached,
    };
    message::place(&probe.deserialize(document).err()?)
}

/// Follows `steps` and raises an error at their end.
#[derive(Clone, Copy)]
struct Probe<'a> {
    steps: &'a [Step],
    reached: &'a Cell<bool>,
}

/// A key that a [`Probe`] compares with its next step.
struct ProbeKey<'a>(Probe<'a>);

// ===== impl Probe =====

impl Probe<'_> {
    fn raise<E: de::Error>(self) -> E {
        self.reached.set(true);
        E::custom("here")
    }
}

impl<'de> DeserializeSeed<'de> for Probe<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Probe<'_> {
    type Value = ();

    // A value that the probe does not visit also ends the path, and the error that serde then raises serves
    // as well as the probe's own.
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reached.set(true);
        f.write_str("a collection")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        if let Some((Step::Index(index), steps)) = self.steps.split_first() {
            for _ in 0..*index {
                seq.next_element::<IgnoredAny>()?;
            }
            seq.next_element_seed(Probe { steps, ..self })?;
        }
        Err(self.raise())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        if let Some((Step::Key(_) | Step::Entry(_), steps)) = self.steps.split_first() {
            while let Some(matches) = map.next_key_seed(ProbeKey(self))? {
                if matches {
                    map.next_value_seed(Probe { steps, ..self })?;
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Err(self.raise())
    }
}

// ===== impl ProbeKey =====

impl<'de> DeserializeSeed<'de> for ProbeKey<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for ProbeKey<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<bool, E> {
        let matches = match self.0.steps.first() {
            Some(Step::Key(step)) => *step == key || ALIASES.contains(&(*step, key)),
            Some(Step::Entry(step)) => **step == *key,
            Some(Step::Index(_)) | None => false,
        };
        // A value may begin on a later line than its key, and a reader looks for the key.
        if matches && self.0.steps.len() == 1 {
            return Err(self.0.raise());
        }
        Ok(matches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
dominion:
  - id: a
    kind: remote
  - {id: b,
     kind: remote}
models:
  some/model:
    policy_classes: &classes
      - {name: x}
  'other':
    policy_classes: *classes
";

    #[test]
    fn a_place_is_that_of_the_key_or_of_the_list_element() {
        let entry = |name: &str| Step::Entry(name.into());
        for (steps, place) in [
            (vec![], (1, 1)),
            // Under its TOML name.
            (vec![Step::Key("dominions")], (1, 1)),
            (vec![Step::Key("dominions"), Step::Index(0)], (2, 5)),
            (
                vec![Step::Key("dominions"), Step::Index(0), Step::Key("kind")],
                (3, 5),
            ),
            (
                vec![Step::Key("dominions"), Step::Index(1), Step::Key("kind")],
                (5, 6),
            ),
            (vec![Step::Key("models"), entry("some/model")], (7, 3)),
            (vec![Step::Key("models"), entry("other")], (10, 3)),
            // An alias has the position of its anchor.
            (
                vec![
                    Step::Key("models"),
                    entry("other"),
                    Step::Key("policy_classes"),
                    Step::Index(0),
                    Step::Key("name"),
                ],
                (9, 10),
            ),
            // A missing value has the position of its nearest ancestor.
            (
                vec![Step::Key("dominions"), Step::Index(1), Step::Key("policy")],
                (4, 5),
            ),
            (vec![Step::Key("dominions"), Step::Index(7)], (2, 3)),
            (vec![Step::Key("headers"), Step::Key("model")], (1, 1)),
        ] {
            let place = Some(Place {
                line: place.0,
                column: place.1,
            });
            assert_eq!(
                Locator::new(TEXT).locate(&Steps(steps.clone())),
                place,
                "{steps:?}"
            );
        }
    }

    #[test]
    fn locating_ends_when_it_has_parsed_enough() {
        let text = format!("a: 1 #{}", "x".repeat(MAX_BYTES - 6));
        let mut locator = Locator::new(&text);
        let found = (0..5).filter(|_| locator.locate(&Steps::default()).is_some());
        assert_eq!(found.count(), 2);
    }
}
