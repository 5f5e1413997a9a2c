//! How mistakes are told.

use std::error::Error;

use tower_policy_queue::{ConfigError, PolicyConfig};

use crate::{assert_mistakes, load, refuse};

#[test]
fn all_mistakes_of_a_file_come_at_once() {
    assert_mistakes(
        "\
default_policy_family: g
uncached_isl_buckets:
  - {min_tokens: 5, bucket: all}
policy_classes:
  - {name: a b, policy_family: f, cache_bucket: all, quantum: 0}
models:
  some/model:
    default_policy_family: f
dominions:
  - {id: pool, max_concurrency: 0, max_queue: 0}
endpoints:
  - {id: a, dominion: pol}
headers: {model: 'x y'}
default_dominion: poool
",
        &[
            ("uncached_isl_buckets[0].min_tokens", "5"),
            ("policy_classes[0].name", "a b"),
            ("policy_classes[0].quantum", "0"),
            ("default_policy_family", "\"g\""),
            ("models.\"some/model\".uncached_isl_buckets", "is missing"),
            ("models.\"some/model\".policy_classes", "is missing"),
            ("dominions[0].max_concurrency", "0"),
            ("dominions[0].max_queue", "0"),
            ("default_dominion", "\"poool\""),
            ("endpoints[0].dominion", "\"pol\""),
            ("headers.model", "x y"),
        ],
    );
}

#[test]
fn a_mistake_is_told_once() {
    // Neither the models of a wrongly bound worker nor those of one without an id are wrong too.
    assert_mistakes(
        "dominions: [{id: a}]\n\
         endpoints: [{id: x, dominion: b, models: [m]}, {id: y, dominion: a, models: [m]}, {}, {dominion: a}]\n\
         profiles: [{name: p, models: [m]}]\n",
        &[
            ("endpoints[0].dominion", "no dominion"),
            ("endpoints[2].id", "is missing"),
            ("endpoints[3].id", "is missing"),
        ],
    );
}

#[test]
fn a_mistake_has_its_place() {
    let error = refuse(
        "\
dominions:
  - id: a
    max_queue: 0

  - {id: b, kind: remote,
     max_concurrency: 0}
models:
  'some/model':
    default_policy_family: f
    uncached_isl_buckets: []
    policy_classes:
    - name: x
endpoints: [{id: e, models: [a, '']}]
",
    );
    let places: Vec<_> = error
        .mistakes()
        .iter()
        .map(|mistake| {
            (
                mistake.path(),
                mistake.line().unwrap(),
                mistake.column().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        places,
        [
            ("models.\"some/model\".uncached_isl_buckets", 10, 5),
            // What is missing is missed where its map begins.
            ("models.\"some/model\".policy_classes[0].quantum", 12, 7),
            ("models.\"some/model\".default_policy_family", 9, 5),
            ("dominions[0].max_queue", 3, 5),
            ("dominions[1].max_concurrency", 6, 6),
            ("endpoints[0].models[1]", 13, 33),
        ]
    );
}

#[test]
fn what_the_parser_refuses_has_its_place_too() {
    for (yaml, line, column) in [
        ("wieght: 1", 1, 1),
        ("a: [", 2, 1),
        ("dominions:\n\t- id: a\n", 2, 1),
        ("dominions: []\nheaders: {}\ndominions: []\n", 3, 1),
        ("dominions:\n  - id: a\n    max_queue: x\n", 3, 5),
        ("dominions:\n  - id: a\n    max_queue: [x]\n", 3, 16),
        ("dominions: []\n---\nheaders: {}\n", 2, 1),
        ("dominions: []\nheaders: \u{7}", 2, 10),
        // The first line is indented, and so ends what it begins.
        ("  dominions: []\nheaders: {}\n", 2, 1),
        ("dominions: *a", 1, 12),
    ] {
        let yaml = yaml.replace("a: [", "dominions: [");
        let error = refuse(&yaml);
        let [mistake] = error.mistakes() else {
            panic!("{yaml}: {error}")
        };
        assert_eq!(
            (mistake.line(), mistake.column()),
            (Some(line), Some(column)),
            "{yaml}: {error}"
        );
    }
}

#[test]
fn what_the_parser_cannot_read_is_told_with_what_to_do() {
    let (brackets, spaces, indented) = (
        "is a bracket left open?",
        "spaces, not tabs",
        "is the line indented like those around it",
    );
    for (yaml, hint) in [
        ("dominions: [{id: a", brackets),
        ("dominions: [a", brackets),
        ("dominions: [{id: a, base_url: ${URL}}]", brackets),
        ("default_dominion:\n\ta", spaces),
        ("default_dominion: @a", spaces),
        ("dominions:\n  - id: a\n max_queue: 2\n", indented),
        ("dominions:\n - id: a\n  - id: b\n", indented),
        ("default_dominion: a\nheaders\n", indented),
        ("default_dominion: a: b", indented),
    ] {
        let error = refuse(yaml).to_string();
        for known in [brackets, spaces, indented] {
            assert_eq!(error.contains(known), known == hint, "{yaml}\n{error}");
        }
    }
    let error = refuse("dominions: *pools").to_string();
    assert!(!error.contains('?'), "nothing to be guessed: {error}");
}

#[test]
fn mistakes_are_displayed_one_to_a_line() {
    let error = refuse("dominions:\n  - {id: a, max_queue: 0}\n  - id: a\n");
    assert_eq!(
        error.to_string(),
        "dominions[0].max_queue: is 0; must be a whole number of at least 1 (line 2, column 13)\n\
         dominions[1].id: \"a\" is already taken by dominions[0].id on line 2 (line 3, column 5)"
    );
}

#[test]
fn an_error_is_an_error_like_others() {
    fn check<T: Error + Send + Sync + 'static>() {}
    check::<ConfigError>();
    let error = refuse("dominions: 1");
    assert!(error.source().is_none());
    assert!(error.file().is_none());
}

#[test]
fn keys_are_never_shown() {
    // Cargo sets this variable for every test.
    let secret = env!("CARGO_PKG_DESCRIPTION");
    let yaml = "endpoints:\n  - id: a\n    base_url: http://${CARGO_PKG_DESCRIPTION}\n    \
                api_key: sk-${CARGO_PKG_DESCRIPTION}\n";
    let shown = format!("{0:?} {0:#?}", load(yaml));
    assert!(!shown.contains(secret) && !shown.contains("sk-"), "{shown}");

    for wrong in [
        "    max_num_batched_tokens: -1\n",
        "    dominion: b\n",
        "    api_kye: 1\n",
        "    api_key: 1\n",
        "  - id: b\n    api_key: sk-${TOWER_POLICY_QUEUE_IS_NOT_SET}\n",
        "  - id: b\n    api_key: sk-${\n",
        "  - id: b\n    api_key: [sk-1]\n",
        "  - id: b\n    api_key: {sk-1: sk-2}\n",
        "  - id:b\n    api_key:sk-1\n",
        "  - {id: b, api_key:sk-1}\n",
        "  - api_key:sk-1\n",
        "  - {id: b, models: sk-1}\n",
    ] {
        let error = refuse(&format!("{yaml}{wrong}"));
        let shown = format!("{error} {error:?} {error:#?}");
        assert!(
            !shown.contains(secret) && !shown.contains("sk-"),
            "{wrong}: {shown}"
        );
    }
}

#[test]
fn a_file_that_is_no_policy_is_not_shown() {
    let error = refuse("OPENAI_API_KEY=sk-1\nTOKEN=sk-2\n");
    assert!(!error.to_string().contains("sk-"), "{error}");
}

#[test]
fn a_variable_where_none_is_replaced_is_told() {
    for yaml in [
        "dominions:\n  - id: a\n    max_concurrency: ${SLOTS}\n",
        "dominions: [{id: '${POOL}'}]",
        "dominions: [{id: a, kind: local, vram_gb: '${VRAM}'}]",
        "dominions: [{id: a}]\ndefault_dominion: ${POOL}",
        "dominions: [{id: a}]\nendpoints: [{id: b, dominion: '${POOL}'}]",
    ] {
        let error = refuse(yaml);
        let [mistake] = error.mistakes() else {
            panic!("{error}")
        };
        let told = "variables are replaced only in api_key and base_url";
        assert!(mistake.message().ends_with(told), "{error}");
    }
}

#[test]
fn toml_is_not_taken_for_a_second_document() {
    let error = refuse("[[dominion]]\nid = \"a\"\n");
    assert!(error.to_string().contains("if it is TOML"), "{error}");
}

#[test]
fn a_forgotten_space_is_told() {
    for yaml in [
        "dominions:\n  - id:a\n    max_queue:2\n",
        "dominions: [{id: a, max_queue:2}]",
        "dominions:\n  - id: a\n    max_queue:2\n",
        "max_queue_wait_ms:2",
    ] {
        let error = refuse(yaml);
        assert!(error.to_string().contains("space"), "{yaml}\n{error}");
        assert!(error.mistakes()[0].line().is_some(), "{yaml}\n{error}");
    }
}

#[test]
fn a_map_in_the_place_of_a_list_is_told_how_a_list_is_written() {
    for yaml in [
        "dominions:\n  gpu:\n    max_queue: 2\n",
        "endpoints: [{id: a, models: gpt-4o}]",
        "models: {a b: {policy_classes: {premium: {}}}}",
    ] {
        let error = refuse(yaml);
        assert!(error.to_string().contains("begins with `- `"), "{error}");
        assert!(!error.mistakes()[0].path().is_empty(), "{error}");
    }
}

#[test]
fn what_is_quoted_is_escaped_and_cut() {
    let name = "x\\n".repeat(10_000);
    let error = refuse(&format!("default_dominion: \"{name}\""));
    assert_eq!(error.to_string().lines().count(), 1);
    assert!(error.to_string().len() < 500);

    let error = refuse(&format!("dominions: ['{}']", "x".repeat(10_000)));
    assert!(error.to_string().len() < 1000);
}

#[test]
fn a_policy_is_a_value_like_others() {
    fn check<T: Clone + Default + Send + Sync + std::fmt::Debug + 'static>() {}
    check::<PolicyConfig>();
}
