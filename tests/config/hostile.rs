//! Files that are made to hurt. Each is refused, and every test here would take minutes or all
//! memory there is if the work were more than linear.

use std::fmt::Write;

use tower_policy_queue::PolicyConfig;

use crate::{assert_mistakes, load, refuse, with_class};

#[test]
fn a_text_longer_than_the_limit_is_refused() {
    let comment = "#".repeat(PolicyConfig::MAX_BYTES);
    load(&comment);
    assert_mistakes(&(comment + "#"), &[("", "longer than 1048576 bytes")]);
}

#[test]
fn deep_nesting_is_refused_whatever_it_is_made_of() {
    let most = PolicyConfig::MAX_BYTES;
    for deep in [
        "[", "{a: ", "[{a: ", "- [", "[\n", "{? ", "[\"]\", ", "{'}': ", "{a: #}\n", "[,",
    ] {
        let yaml = deep.repeat(most / deep.len());
        let error = refuse(&yaml);
        assert!(error.to_string().contains("64 deep"), "{deep:?}: {error}");
    }
    let error = refuse(&"- ".repeat(most / 2));
    assert!(error.to_string().contains("64 deep"), "{error}");
    refuse(&"? ".repeat(most / 2));
    let mut stairs = String::new();
    for depth in 0..1400 {
        writeln!(stairs, "{:depth$}a:", "").unwrap();
    }
    let error = refuse(&stairs);
    assert!(error.to_string().contains("64 deep"), "{error}");
}

#[test]
fn the_place_of_the_bracket_too_many_is_told() {
    let error = refuse(&format!("dominions:\n{}", "[".repeat(100)));
    assert_eq!(error.mistakes()[0].line(), Some(2));
    assert_eq!(error.mistakes()[0].column(), Some(65));
}

#[test]
fn quotes_that_are_none_hide_no_brackets() {
    let deep = "{a: ".repeat(100_000);
    for before in [
        "a: b\n  'c\nd: ",
        "- b\n  \"c\n- ",
        "a: |\n '\nb: ",
        "a: b#'\nc: ",
        "# '\u{2028}",
        "!<x,'> ",
        "'it''s': ",
        "\"\\\\\": ",
        "? '\n'\n: ",
    ] {
        let error = refuse(&format!("{before}{deep}"));
        assert!(error.to_string().contains("64 deep"), "{before:?}: {error}");
    }
}

#[test]
fn aliases_cannot_make_a_small_file_a_large_one() {
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let alias = format!("*a{}", level - 1);
        writeln!(laughs, "a{level}: &a{level} [{}]", [&*alias; 8].join(", ")).unwrap();
    }
    let error = refuse(&laughs);
    assert!(error.to_string().contains("aliases"), "{error}");

    let list = format!(
        "profiles:\n - {{name: a, models: &m [{}]}}\n{}",
        "x,".repeat(100_000),
        " - {name: b, models: *m}\n".repeat(30_000)
    );
    let error = refuse(&list);
    assert!(error.to_string().contains("aliases"), "{error}");

    let text = format!("- &x {}\n{}", "x".repeat(500_000), "- *x\n".repeat(100_000));
    let error = refuse(&text);
    assert!(error.to_string().contains("aliases"), "{error}");
}

#[test]
fn an_alias_to_itself_is_refused() {
    let error = refuse("dominions: &a [*a]");
    assert!(error.to_string().contains("64 deep"), "{error}");
    refuse("dominions: *a");
}

#[test]
fn many_mistakes_are_all_told() {
    let count = 20_000;
    let error = refuse(&format!("dominions: [{}]", "{},".repeat(count)));
    assert_eq!(error.mistakes().len(), count);
    assert!(error.to_string().len() < 100 * count);
}

#[test]
fn a_matrix_far_larger_than_the_file_is_not_built() {
    let mut yaml = "default_policy_family: f0\nuncached_isl_buckets:\n".to_owned();
    for bucket in 0..3_000 {
        writeln!(yaml, "- {{min_tokens: {bucket}, bucket: b{bucket}}}").unwrap();
    }
    yaml += "policy_classes:\n";
    for family in 0..3_000 {
        writeln!(
            yaml,
            "- {{name: c{family}, policy_family: f{family}, cache_bucket: b0, quantum: 1}}"
        )
        .unwrap();
    }
    let error = refuse(&yaml);
    assert_eq!(error.mistakes().len(), 3_000);
    assert!(
        error.mistakes()[0]
            .message()
            .ends_with("and 2989 more; it needs one for each bucket")
    );
}

#[test]
fn more_queues_than_memory_holds_are_refused() {
    let policy = |dominions: usize, classes: usize| {
        let mut yaml = with_class("quantum: 1");
        for class in 1..classes {
            writeln!(yaml, "  - {{name: c{class}, quantum: 1}}").unwrap();
        }
        yaml += "dominions:\n";
        for dominion in 0..dominions {
            writeln!(yaml, "  - {{id: d{dominion}}}").unwrap();
        }
        yaml
    };
    load(&policy(512, 512));
    assert_mistakes(&policy(513, 512), &[("dominions", "262144 queues")]);
    // Some 8 GB.
    assert_mistakes(&policy(5_000, 5_000), &[("dominions", "262144 queues")]);
}

#[test]
fn long_lists_of_what_there_is_are_not_repeated_whole() {
    let mut yaml = "dominions:\n".to_owned();
    for dominion in 0..3_000 {
        writeln!(yaml, "- {{id: d{dominion}}}").unwrap();
    }
    yaml += "endpoints:\n";
    for endpoint in 0..3_000 {
        writeln!(yaml, "- {{id: e{endpoint}, dominion: x}}").unwrap();
    }
    let error = refuse(&yaml);
    assert_eq!(error.mistakes().len(), 3_000);
    assert!(
        error.mistakes()[0]
            .message()
            .ends_with("\"d9\" and 2990 more")
    );
}

#[test]
fn a_name_of_any_length_is_not_repeated_whole() {
    let name = "m".repeat(500_000);
    let classes = "   - {}\n".repeat(50_000);
    let error = refuse(&format!(
        "models:\n  ? {name}\n  :\n   policy_classes:\n{classes}"
    ));
    assert_eq!(error.mistakes().len(), 2 + 2 * 50_000);
    assert!(error.to_string().len() < 300 * error.mistakes().len());
}

#[test]
fn several_documents_are_refused() {
    for yaml in [
        "dominions: []\n---\ndominions: []\n",
        "---\n---\n",
        "{}\n...\n{}\n",
        "{}\n---\n",
    ] {
        let error = refuse(yaml);
        assert!(
            error.to_string().contains("second document"),
            "{yaml:?}: {error}"
        );
    }
}

#[test]
fn directives_without_use_are_refused() {
    let mut yaml = String::new();
    for tag in 0..40_000 {
        writeln!(yaml, "%TAG !{tag}! x").unwrap();
    }
    assert_mistakes(&(yaml + "---\n{}\n"), &[("", "`%TAG`")]);
    load("%YAML 1.2\n---\n{}\n");
}

#[test]
fn characters_that_are_no_text_are_refused() {
    for (yaml, gist) in [
        ("dominions: \0", "U+0000"),
        ("# \u{1b}[31m", "U+001B"),
        ("\u{fffe}", "U+FFFE"),
    ] {
        assert_mistakes(yaml, &[("", gist)]);
    }
}

#[test]
fn broken_text_is_refused_and_panics_nowhere() {
    // Every beginning of a file is a file.
    let yaml = "\
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: 'all'}]
policy_classes:
  - {name: a, policy_family: f, cache_bucket: \"all\", quantum: 1}
models: {\"a/é\": ~}
endpoints: &e
  - id: |
      x
    models: [*e]
";
    for (end, _) in yaml.char_indices() {
        let _ = yaml[..end].parse::<PolicyConfig>();
        // And so is every end, and one without a character.
        let _ = yaml[end..].parse::<PolicyConfig>();
        let mut without = yaml.to_owned();
        without.remove(end);
        let _ = without.parse::<PolicyConfig>();
    }
}
