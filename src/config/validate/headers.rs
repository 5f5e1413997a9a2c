//! Which request headers are used.

use std::collections::HashMap;

use http::HeaderName;

use super::Findings;
use crate::config::{Headers, names, path::Path, schema::RawHeaders};

pub(super) fn resolve(found: &mut Findings, raw: RawHeaders) -> Headers {
    let default = Headers::default();
    let mut fields = Fields {
        found,
        first_of_header: HashMap::new(),
    };
    Headers {
        policy: fields
            .resolve("policy", raw.policy, Some(default.policy.clone()))
            .unwrap_or(default.policy),
        client: fields
            .resolve("client", raw.client, Some(default.client.clone()))
            .unwrap_or(default.client),
        model: fields.resolve("model", raw.model, None),
        raw_isl_tokens: fields.resolve("raw_isl_tokens", raw.raw_isl_tokens, None),
        cached_tokens: fields.resolve("cached_tokens", raw.cached_tokens, None),
        strict_priority: fields.resolve("strict_priority", raw.strict_priority, None),
        priority_jump: fields.resolve("priority_jump", raw.priority_jump, None),
        worker: fields.resolve("worker", raw.worker, None),
        allowed_workers: fields.resolve("allowed_workers", raw.allowed_workers, None),
        max_queue_wait_ms: fields.resolve("max_queue_wait_ms", raw.max_queue_wait_ms, None),
    }
}

struct Fields<'a> {
    found: &'a mut Findings,
    first_of_header: HashMap<HeaderName, &'static str>,
}

impl Fields<'_> {
    /// The header that `field` is read from: the one named in the policy, or else the default.
    fn resolve(
        &mut self,
        field: &'static str,
        named: Option<String>,
        default: Option<HeaderName>,
    ) -> Option<HeaderName> {
        let root = Path::Root;
        let headers = root.key("headers");
        let header = match named {
            None => default?,
            Some(name) => match HeaderName::from_bytes(name.as_bytes()) {
                Ok(header) => header,
                Err(_) => {
                    let message = format!("{} is not a valid header name", names::quote(&name));
                    self.found.report(headers.key(field), message);
                    return None;
                }
            },
        };
        if let Some(other) = self.first_of_header.get(&header) {
            let message = format!("the header {header} is already used for");
            self.found
                .clash(headers.key(field), headers.key(other), message);
        } else {
            self.first_of_header.insert(header.clone(), field);
        }
        Some(header)
    }
}
