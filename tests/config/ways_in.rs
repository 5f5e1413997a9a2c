//! A file, TOML, JSON: the ways in besides text.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tower_policy_queue::PolicyConfig;

/// A file that is removed at the end of a test.
struct TempFile(PathBuf);

impl TempFile {
    fn new(name: &str, contents: impl AsRef<[u8]>) -> Self {
        let name = format!("tower-policy-queue-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, contents).unwrap();
        Self(path)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn a_file_loads() {
    let file = TempFile::new("good.yaml", "dominions: [{id: a}]");
    PolicyConfig::from_path(&file.0).unwrap();
}

#[test]
fn a_file_with_nothing_in_it_is_no_policy() {
    for contents in [
        "",
        "\n\n",
        "\u{feff}# to be written\n  # soon\n",
        "---\n",
        "%YAML 1.2\n--- # soon\n...\n",
        // As templates render what nobody has set.
        "null\n",
    ] {
        let file = TempFile::new("empty.yaml", contents);
        let error = PolicyConfig::from_path(&file.0).unwrap_err();
        let [mistake] = error.mistakes() else {
            panic!("{error}")
        };
        assert_eq!(mistake.line(), Some(1));
        assert!(mistake.message().contains("is empty"), "{error}");
    }
    let file = TempFile::new("nothing.yaml", "# everything starts at once\n{}\n");
    PolicyConfig::from_path(&file.0).unwrap();
}

#[test]
fn the_error_of_a_file_names_it_on_every_line() {
    let file = TempFile::new("bad.yaml", "dominions: [{id: a, max_queue: 0}, {id: a}]");
    let error = PolicyConfig::from_path(&file.0).unwrap_err();
    assert_eq!(error.file(), Some(&*file.0));
    assert_eq!(error.mistakes().len(), 2);
    let shown = error.to_string();
    let name = file.0.display().to_string();
    assert!(shown.lines().all(|line| line.starts_with(&name)), "{shown}");
    assert_eq!(
        format!("{error:?}"),
        shown,
        "as `main` shows what it returns"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let path = Path::new("tests/config/no-such-file.yaml");
    let error = PolicyConfig::from_path(path).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("tests/config/no-such-file.yaml: cannot be read: ")
    );
    assert!(error.mistakes().is_empty());
    assert!(std::error::Error::source(&error).is_some());
}

#[test]
fn a_file_that_is_not_utf_8_is_refused_where_it_is_not() {
    for (bytes, line, column) in [
        (&b"dominions: []\n# \xC3\xA9 \xFF\n"[..], 2, 5),
        (b"\xFF\xFE{\0}\0", 1, 1),
        (b"{}\n\xC3", 2, 1),
    ] {
        let file = TempFile::new("latin.yaml", bytes);
        let error = PolicyConfig::from_path(&file.0).unwrap_err();
        let [mistake] = error.mistakes() else {
            panic!("{error}")
        };
        assert!(mistake.message().contains("not UTF-8"), "{error}");
        assert_eq!(
            (mistake.line(), mistake.column()),
            (Some(line), Some(column))
        );
    }
}

#[test]
fn a_file_longer_than_the_limit_is_refused_unread() {
    let file = TempFile::new("long.yaml", "é".repeat(PolicyConfig::MAX_BYTES));
    let error = PolicyConfig::from_path(&file.0).unwrap_err();
    assert!(
        error.to_string().contains("longer than 1048576 bytes"),
        "{error}"
    );
}

#[cfg(unix)]
#[test]
fn a_file_without_an_end_is_refused() {
    let error = PolicyConfig::from_path("/dev/zero").unwrap_err();
    assert!(
        error.to_string().contains("longer than 1048576 bytes"),
        "{error}"
    );
}

#[test]
fn toml_reads_the_same_tables_under_their_singular_names() {
    toml::from_str::<PolicyConfig>(
        r#"
default_policy_family = "f"
uncached_isl_buckets = [{ min_tokens = 0, bucket = "all" }]

[[policy_classes]]
name = "a"
policy_family = "f"
cache_bucket = "all"
quantum = 10
prefill_busy_threshold_frac = 16

[models."some/model"]
default_policy_family = "f"
uncached_isl_buckets = [{ min_tokens = 0, bucket = "all" }]
policy_classes = [{ name = "a", policy_family = "f", cache_bucket = "all", quantum = 1 }]

[[dominion]]
id = "pool"
kind = "remote"
max_concurrency = 4
max_queue = 50
policy = "reject"
fair_scheduling = false

[[dominion]]
id = "gpu0"
kind = "local"
vram_gb = 24

[[endpoint]]
id = "e"
protocol = "openai"
base_url = "http://localhost:8000"
api_key = ""
dominion = "pool"

[[local_model]]
id = "q"
dominion = "gpu0"
vram_gb = 1.22

[[profile]]
name = "work"
models = ["q", "e"]
"#,
    )
    .unwrap();
}

#[test]
fn toml_is_validated_as_yaml_is() {
    for (toml, gist) in [
        (
            "[[dominion]]\nid = 'a'\nmax_queue = 0\n",
            "dominions[0].max_queue: is 0",
        ),
        (
            "[[dominion]]\nid = 'a'\nvram_gb = nan\nkind = 'local'\n",
            "dominions[0].vram_gb",
        ),
        (
            "[[dominion]]\nid = 'a'\n[[dominion]]\nid = 'a'\n",
            "taken by dominions[0].id",
        ),
        (
            "[[endpoint]]\nid = 'a'\napi_key = '${TOWER_POLICY_QUEUE_IS_NOT_SET}'\n",
            "is not set",
        ),
        ("[[dominon]]\nid = 'a'\n", "unknown field `dominon`"),
        ("[[dominion]]\nid = 1\n", "expected a string"),
        (
            "[[dominion]]\nid = 'a'\nmax_queue = 1.0\n",
            "a whole number",
        ),
        (
            "[[dominion]]\nid = 'a'\n[[dominions]]\nid = 'b'\n",
            "duplicate field",
        ),
    ] {
        let error = toml::from_str::<PolicyConfig>(toml)
            .unwrap_err()
            .to_string();
        assert!(error.contains(gist), "{toml}: {error}");
    }
}

#[test]
fn all_mistakes_come_at_once_through_serde_too() {
    let error = serde_json::from_str::<PolicyConfig>(
        r#"{"dominions": [{"id": "a", "max_queue": 0, "max_concurrency": -1}], "default_dominion": "b"}"#,
    );
    let error = error.unwrap_err().to_string();
    for path in [
        "dominions[0].max_queue",
        "dominions[0].max_concurrency",
        "default_dominion",
    ] {
        assert!(error.contains(path), "{error}");
    }
}

#[test]
fn a_map_with_a_repeated_key_is_refused_in_any_format() {
    let error = serde_json::from_str::<PolicyConfig>(r#"{"models": {"a": {}, "a": {}}}"#);
    assert!(error.unwrap_err().to_string().contains("\"a\" is repeated"));
}

#[test]
fn a_policy_can_be_a_part_of_a_larger_file() {
    #[derive(serde::Deserialize)]
    struct Gateway {
        listen: String,
        queue: PolicyConfig,
    }
    let gateway: Gateway =
        toml::from_str("listen = 'localhost:80'\n[[queue.dominion]]\nid = 'a'\n").unwrap();
    assert_eq!(gateway.listen, "localhost:80");
    let _ = gateway.queue;
}

#[test]
fn the_default_is_the_empty_policy() {
    let default = format!("{:?}", PolicyConfig::default());
    assert_eq!(
        default,
        format!("{:?}", "".parse::<PolicyConfig>().unwrap())
    );
}
