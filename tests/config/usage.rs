//! The keys about what requests use: output, the turns of clients, the class in a header.

use crate::{assert_mistakes, load, with_class};

#[test]
fn their_values_load() {
    for weight in ["0", "0.5", "1", "3", "1e3"] {
        load(&with_class(&format!(
            "quantum: 1, output_token_weight: {weight}"
        )));
    }
    for unit in ["requests", "tokens"] {
        load(&format!("dominions: [{{id: d, fair_unit: {unit}}}]"));
    }
    load("class_header: true");
    load("class_header: false");
}

#[test]
fn a_weight_is_a_finite_number_of_0_or_more() {
    for weight in ["-0.1", "-1", ".nan", ".inf", "-.inf"] {
        assert_mistakes(
            &with_class(&format!("quantum: 1, output_token_weight: {weight}")),
            &[(
                "policy_classes[0].output_token_weight",
                "finite number of at least 0",
            )],
        );
    }
}

#[test]
fn what_concerns_clients_needs_them_told_apart_and_a_fair_unit_is_one_of_its_words() {
    assert_mistakes(
        "dominions: [{id: d, fair_unit: bytes}]",
        &[("dominions[0].fair_unit", r#""requests" or "tokens""#)],
    );
    assert_mistakes(
        "dominions: [{id: d, fair_scheduling: false, fair_unit: tokens}]",
        &[("dominions[0].fair_unit", "no effect")],
    );
    assert_mistakes(
        "dominions: [{id: d, fair_scheduling: false, max_queue_per_client: 8}]",
        &[("dominions[0].max_queue_per_client", "no effect")],
    );
}
