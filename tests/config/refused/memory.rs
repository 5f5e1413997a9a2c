//! Refused: models that do not fit.

use crate::assert_mistakes;

#[test]
fn memory_on_a_remote_dominion() {
    for kind in ["", ", kind: remote"] {
        assert_mistakes(
            &format!("dominions: [{{id: a, vram_gb: 24{kind}}}]"),
            &[(
                "dominions[0].vram_gb",
                "only in a dominion with `kind: local`",
            )],
        );
    }
}

#[test]
fn amounts_of_memory_that_are_none() {
    for value in ["0", "-0.0", "-1", ".nan", ".inf", "-.inf"] {
        assert_mistakes(
            &format!("local_models: [{{id: a, vram_gb: {value}}}]"),
            &[("local_models[0].vram_gb", "finite number above 0")],
        );
        assert_mistakes(
            &format!("dominions: [{{id: a, kind: local, vram_gb: {value}}}]"),
            &[("dominions[0].vram_gb", "finite number above 0")],
        );
    }
}

#[test]
fn models_that_do_not_fit_together() {
    let models = "\
dominions: [{id: gpu0, kind: local, vram_gb: 24}, {id: gpu1, kind: local, vram_gb: 8}]
local_models:
  - {id: a, dominion: gpu0, vram_gb: 23}
  - {id: b, dominion: gpu0, vram_gb: 1.22}
  - {id: c, dominion: gpu1, vram_gb: 8.5}
";
    assert_mistakes(
        models,
        &[
            (
                "local_models",
                "24.22 GB of VRAM in the dominion \"gpu0\", 0.22 GB more than its 24 GB",
            ),
            (
                "local_models",
                "8.5 GB of VRAM in the dominion \"gpu1\", 0.5 GB more than its 8 GB",
            ),
        ],
    );
    assert_mistakes(
        &format!("{models}profiles: [{{name: day, models: [a]}}, {{name: night, models: [b, a]}}]"),
        &[(
            "profiles[1].models",
            "profile \"night\" need 24.22 GB of VRAM in the dominion \"gpu0\", 0.22 GB more",
        )],
    );
    // The smallest excess that is no rounding.
    assert_mistakes(
        "dominions: [{id: g, kind: local, vram_gb: 0.3}]\n\
         local_models: [{id: a, dominion: g, vram_gb: 0.1}, {id: b, dominion: g, vram_gb: 0.200001}]",
        &[("local_models", "0.000001 GB more")],
    );
    // A sum that overflows is too much, too.
    assert_mistakes(
        "dominions: [{id: g, kind: local, vram_gb: 1}]\n\
         local_models: [{id: a, dominion: g, vram_gb: 1e308}, {id: b, dominion: g, vram_gb: 1e308}]",
        &[("local_models", "inf GB")],
    );
}

#[test]
fn models_without_an_estimate_where_there_is_a_budget() {
    let models = "dominions: [{id: gpu, kind: local, vram_gb: 24}, {id: cpu, kind: local}]\n\
                  local_models: [{id: a, dominion: gpu, vram_gb: 1}, {id: b, dominion: gpu}, {id: c, dominion: cpu}]\n";
    assert_mistakes(
        models,
        &[("local_models[1].vram_gb", "the dominion \"gpu\"")],
    );
    assert_mistakes(
        &format!("{models}profiles: [{{name: p, models: [b, c]}}, {{name: q, models: [b]}}]"),
        &[(
            "local_models[1].vram_gb",
            "the model \"b\", which the profile \"p\" loads",
        )],
    );
}
