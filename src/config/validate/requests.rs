//! Settings for all requests, whatever their class.

use std::collections::HashMap;

use http::{Method, StatusCode};

use super::{Findings, numbers};
use crate::config::{
    Bypass, Code, ReadAhead, names,
    path::Path,
    value::{Map, Scalar, Whole},
};

pub(super) fn read_ahead(
    found: &mut Findings,
    request: Option<Whole>,
    total: Option<Whole>,
) -> ReadAhead {
    let root = Path::Root;
    let default = ReadAhead::default();
    let mut bytes = |key, value| numbers::bytes(found, root.key(key), value);
    ReadAhead {
        request: bytes("read_ahead_bytes", request).unwrap_or(default.request),
        total: bytes("read_ahead_total_bytes", total).unwrap_or(default.total),
    }
}

pub(super) fn statuses(
    found: &mut Findings,
    raw: Option<Map<Option<Whole>>>,
) -> HashMap<String, StatusCode> {
    let root = Path::Root;
    let statuses = root.key("statuses");
    let mut resolved = HashMap::new();
    for (code, status) in raw.map(|raw| raw.0).unwrap_or_default() {
        let path = statuses.entry(&code);
        let codes = Code::ALL.map(Code::as_str);
        if !codes.contains(&&*code) {
            let known = codes.map(names::quote).join(", ");
            found.report(path, format!("is an unknown code; the codes are {known}"));
            continue;
        }
        let Some(Whole(status)) = status else {
            continue;
        };
        // A response that is not an error would be mistaken for the backend's.
        let own = match status {
            Scalar::Whole(status @ 400..=599) => u16::try_from(status).ok(),
            _ => None,
        };
        match own.and_then(|status| StatusCode::from_u16(status).ok()) {
            Some(status) => {
                resolved.insert(code.to_string(), status);
            }
            None => found.report(
                path,
                format!("is {status}; must be a status from 400 to 599"),
            ),
        }
    }
    resolved
}

pub(super) fn bypass(found: &mut Findings, raw: Option<Vec<Option<String>>>) -> Bypass {
    let root = Path::Root;
    let list = root.key("bypass");
    let mut bypass = Bypass::default();
    for (index, entry) in raw.unwrap_or_default().into_iter().enumerate() {
        let entry = entry.unwrap_or_default();
        let method = Method::from_bytes(entry.as_bytes()).ok();
        match method.filter(|method| {
            method
                .as_str()
                .bytes()
                .all(|byte| byte.is_ascii_uppercase())
        }) {
            _ if entry.starts_with('/') => bypass.path_prefixes.push(entry),
            Some(method) => bypass.methods.push(method),
            None => {
                let message = format!(
                    "is {}; must be a path prefix, such as /health, or a method in capitals, such as \
                     OPTIONS",
                    names::quote(&entry)
                );
                found.report(list.index(index), message);
            }
        }
    }
    bypass
}
