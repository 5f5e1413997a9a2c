use tower_policy_queue::PolicyConfig;
#[test]
fn traces_load() {
    for entry in std::fs::read_dir("tests/traces").unwrap() {
        let path = entry.unwrap().path();
        let v: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let c = v["config"].as_str().unwrap();
        c.parse::<PolicyConfig>()
            .unwrap_or_else(|e| panic!("{path:?}: {e}"));
    }
}
