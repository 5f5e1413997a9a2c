//! Reads the headers that a policy names.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::Reason;

/// A header that anyone may send: one that cannot be read is ignored.
pub(super) fn hint<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// A name in a trusted header. An empty one counts as absent.
pub(super) fn name<'a>(
    headers: &'a HeaderMap,
    header: &HeaderName,
) -> Result<Option<&'a str>, Reason> {
    let name = trusted(headers, header, "one value of UTF-8 text", Some)?;
    Ok(name.filter(|name| !name.is_empty()))
}

/// A number of tokens or milliseconds in a trusted header.
pub(super) fn integer(headers: &HeaderMap, header: &HeaderName) -> Result<Option<u64>, Reason> {
    trusted(
        headers,
        header,
        "one integer from 0 to 18446744073709551615",
        |text| text.parse().ok(),
    )
}

/// A strict priority in a trusted header.
pub(super) fn tier(headers: &HeaderMap, header: &HeaderName) -> Result<Option<u32>, Reason> {
    trusted(
        headers,
        header,
        "one integer from 0 to 4294967295",
        |text| text.parse().ok(),
    )
}

/// A priority jump in a trusted header.
pub(super) fn jump(headers: &HeaderMap, header: &HeaderName) -> Result<Option<f64>, Reason> {
    trusted(headers, header, "one finite number", |text| {
        text.parse().ok().filter(|jump: &f64| jump.is_finite())
    })
}

/// Comma-separated names in a trusted header, which may be sent several times.
pub(super) fn list<'a>(
    headers: &'a HeaderMap,
    header: &HeaderName,
) -> Result<Option<Vec<&'a str>>, Reason> {
    let mut list = None;
    for value in headers.get_all(header) {
        let text = text(value).ok_or_else(|| invalid(header, "worker ids separated by commas"))?;
        let names = text
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        list.get_or_insert_with(Vec::new).extend(names);
    }
    Ok(list)
}

/// A trusted header: one that cannot be read is an error, never a guess.
fn trusted<'a, T>(
    headers: &'a HeaderMap,
    header: &HeaderName,
    expected: &'static str,
    parse: impl FnOnce(&'a str) -> Option<T>,
) -> Result<Option<T>, Reason> {
    let mut values = headers.get_all(header).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    // A second value may be the caller's own, let through by the proxy that adds the first.
    let only = values.next().is_none();
    let parsed = text(value).filter(|_| only).and_then(parse);
    parsed.map(Some).ok_or_else(|| invalid(header, expected))
}

fn text(value: &HeaderValue) -> Option<&str> {
    std::str::from_utf8(value.as_bytes()).ok().map(str::trim)
}

fn invalid(header: &HeaderName, expected: &'static str) -> Reason {
    Reason::InvalidHeader {
        name: header.clone(),
        expected,
    }
}
