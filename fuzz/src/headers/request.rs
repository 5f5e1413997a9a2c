//! Requests with anything in their headers.

use arbitrary::Arbitrary;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Uri, header};
use http_body_util::Full;

/// A request.
#[derive(Arbitrary, Clone, Debug)]
pub struct Sent {
    method: Verb,
    path: Target,
    body: u8,
    headers: Vec<(Field, Value)>,
}

#[derive(Arbitrary, Clone, Debug)]
enum Verb {
    Get,
    Post,
    Options,
    Other(Vec<u8>),
}

#[derive(Arbitrary, Clone, Debug)]
enum Target {
    Completions,
    Health,
    /// A path that begins like the other.
    Healthy,
    Other(Vec<u8>),
}

/// A header that the policies believe.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Field {
    Policy,
    Client,
    Model,
    Raw,
    Cached,
    Tier,
    Jump,
    Worker,
    Allowed,
    Wait,
    ContentLength,
}

#[derive(Arbitrary, Clone, Debug)]
enum Value {
    /// One of what there is in the policies.
    Name(u8),
    /// One of what is often wrong.
    Odd(u8),
    Small(u8),
    Whole(u64),
    Signed(i64),
    Float(f64),
    /// Names in a row.
    List(Vec<u8>),
    Bytes(Vec<u8>),
}

const NAMES: [&str; 16] = [
    "w1",
    "w2",
    "free",
    "w9",
    "m1",
    "m2",
    "m3",
    "x",
    "std",
    "pro",
    "batch",
    "std-small",
    "one",
    "default",
    "team-a",
    "team-b",
];

const ODD: [&[u8]; 24] = [
    b"",
    b" ",
    b"NaN",
    b"-NaN",
    b"inf",
    b"-inf",
    b"infinity",
    b"1e999",
    b"-1e999",
    b"1e308",
    b"5e-324",
    b"-0",
    b"+1",
    b"-1",
    b"0x10",
    b"1_000",
    b"1,5",
    b"4294967295",
    b"4294967296",
    b"18446744073709551615",
    b"18446744073709551616",
    b"99999999999999999999999999999999999999999",
    b"\xff",
    "\u{664}\u{662}".as_bytes(),
];

impl Sent {
    pub fn request(&self) -> Request<Full<Bytes>> {
        let body = Full::from(vec![b'x'; self.body.into()]);
        let mut request = Request::new(body);
        *request.method_mut() = match &self.method {
            Verb::Get => Method::GET,
            Verb::Post => Method::POST,
            Verb::Options => Method::OPTIONS,
            Verb::Other(bytes) => Method::from_bytes(bytes).unwrap_or(Method::PATCH),
        };
        *request.uri_mut() = match &self.path {
            Target::Completions => Uri::from_static("/v1/chat/completions"),
            Target::Health => Uri::from_static("/health"),
            Target::Healthy => Uri::from_static("/healthy?a=/health"),
            Target::Other(bytes) => Uri::try_from(&**bytes).unwrap_or_default(),
        };
        for (field, value) in &self.headers {
            // What HTTP does not allow does not come through a server either.
            if let Ok(value) = HeaderValue::from_bytes(&value.bytes()) {
                request.headers_mut().append(field.name(), value);
            }
        }
        request
    }
}

impl Field {
    fn name(self) -> HeaderName {
        HeaderName::from_static(match self {
            Self::Policy => "x-policy",
            Self::Client => "x-client",
            Self::Model => "x-model",
            Self::Raw => "x-raw",
            Self::Cached => "x-cached",
            Self::Tier => "x-tier",
            Self::Jump => "x-jump",
            Self::Worker => "x-worker",
            Self::Allowed => "x-allowed",
            Self::Wait => "x-wait",
            Self::ContentLength => return header::CONTENT_LENGTH,
        })
    }
}

impl Value {
    fn bytes(&self) -> Vec<u8> {
        let name = |number: u8| NAMES[usize::from(number) % NAMES.len()];
        match self {
            Self::Name(number) => name(*number).into(),
            Self::Odd(number) => ODD[usize::from(*number) % ODD.len()].into(),
            Self::Small(number) => number.to_string().into(),
            Self::Whole(number) => number.to_string().into(),
            Self::Signed(number) => number.to_string().into(),
            Self::Float(number) => number.to_string().into(),
            Self::List(numbers) => {
                let names: Vec<&str> = numbers.iter().map(|number| name(*number)).collect();
                names.join(" ,").into()
            }
            Self::Bytes(bytes) => bytes.clone(),
        }
    }
}
