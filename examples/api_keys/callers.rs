//! Callers of all kinds, over real HTTP.

use std::{error::Error, sync::Arc};

use axum::http::{
    HeaderMap, HeaderValue, Request, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::task::JoinSet;

use crate::gateway::{FAMILY, STREAMS};

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

const LABEL: &str = "x-promptforge-client";
const TIER: &str = "x-strict-priority";

/// A caller, what it sends, and what it should get.
pub(crate) struct Caller {
    pub(crate) name: &'static str,
    key: Option<&'static str>,
    pub(crate) requests: usize,
    family: Option<&'static str>,
    tier: Option<&'static str>,
    /// Every request carries a different label.
    pub(crate) mints_labels: bool,
    /// `None`: it should not get in.
    pub(crate) class: Option<&'static str>,
    /// Its last turn should come no later than this.
    pub(crate) last_turn: usize,
    /// It should have no more of the first [`REGULAR_DONE`] turns than this.
    pub(crate) most_turns: usize,
}

impl Caller {
    const fn new(name: &'static str, key: &'static str, requests: usize) -> Self {
        Self {
            name,
            key: Some(key),
            requests,
            family: None,
            tier: None,
            mints_labels: false,
            class: Some("regular"),
            last_turn: usize::MAX,
            most_turns: requests,
        }
    }

    /// What it asks for, besides an answer.
    pub(crate) fn wish(&self) -> String {
        let family = self.family.map(str::to_owned);
        let tier = self.tier.map(|tier| format!("tier {tier}"));
        let labels = self.mints_labels.then(|| "a label each".to_owned());
        let wishes: Vec<_> = [family, tier, labels].into_iter().flatten().collect();
        wishes.join(", ")
    }
}

/// While the 17 premium requests wait, four of five turns are theirs.
const PREMIUM_DONE: usize = 17 * 5 / 4 + 2;
/// Three tenants take turns at the rest: eight turns each, and one more for one of them.
pub(crate) const REGULAR_DONE: usize = 17 + 3 * 8 + 1;

/// In order of arrival, the worst first.
pub(crate) static CALLERS: [Caller; 8] = [
    Caller {
        mints_labels: true,
        // As many turns as the others with such keys, and one more, as hers comes first.
        most_turns: 9,
        ..Caller::new("eve", "demo-key-of-eve", 2000)
    },
    Caller {
        family: Some("premium"),
        tier: Some("9"),
        last_turn: REGULAR_DONE,
        ..Caller::new("mallory", "demo-key-of-mallory", 8)
    },
    Caller {
        last_turn: REGULAR_DONE,
        ..Caller::new("bob", "demo-key-of-bob", 8)
    },
    Caller {
        class: Some("premium"),
        last_turn: PREMIUM_DONE,
        ..Caller::new("acme", "demo-key-of-acme", 16)
    },
    Caller {
        family: Some("regular"),
        last_turn: REGULAR_DONE,
        ..Caller::new("acme", "demo-key-of-acme", 1)
    },
    Caller {
        tier: Some("9"),
        class: Some("premium"),
        last_turn: 2,
        ..Caller::new("ops", "demo-key-of-ops", 1)
    },
    Caller {
        family: Some("premium"),
        class: None,
        ..Caller::new("nobody", "demo-key-of-nobody", 1)
    },
    Caller {
        key: None,
        class: None,
        ..Caller::new("nobody", "", 1)
    },
];

/// Holds the slot while the others arrive.
pub(crate) static OPENER: Caller = Caller::new("bob", "demo-key-of-bob", 1);

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) class: String,
    pub(crate) client: String,
    pub(crate) turn: usize,
    pub(crate) waited_ms: usize,
}

type HttpClient = Client<HttpConnector, Full<Bytes>>;

/// Sends one of a caller's requests and reads the answer.
async fn ask(
    client: HttpClient,
    base: Arc<str>,
    caller: &'static Caller,
    number: usize,
) -> Result<Answer, BoxError> {
    let text = format!("{:56}", format!("Request {number} of {}", caller.name));
    let body = format!(r#"{{"model": "embedded", "max_tokens": 2, "prompt": "{text}"}}"#);
    // 32 tokens, at four bytes a token.
    let mut request = Request::post(format!("{base}/v1/completions"))
        .header(CONTENT_TYPE, "application/json")
        .body(Full::from(format!("{body:128}")))?;
    let headers = request.headers_mut();
    let mut say = |name, value: Option<&str>| -> Result<(), BoxError> {
        if let Some(value) = value {
            headers.insert(name, HeaderValue::try_from(value)?);
        }
        Ok(())
    };
    let bearer = caller.key.map(|key| format!("Bearer {key}"));
    let label = caller.mints_labels.then(|| format!("minted-{number}"));
    say(AUTHORIZATION.as_str(), bearer.as_deref())?;
    say(FAMILY, caller.family)?;
    say(TIER, caller.tier)?;
    say(LABEL, label.as_deref())?;

    let (head, body) = client.request(request).await?.into_parts();
    body.collect().await?;
    let number = |name| said(&head.headers, name).parse().unwrap_or(0);
    Ok(Answer {
        status: head.status,
        class: said(&head.headers, "x-class").to_owned(),
        client: said(&head.headers, "x-client").to_owned(),
        turn: number("x-turn"),
        waited_ms: number("x-queued-ms"),
    })
}

fn said<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    let value = headers.get(name);
    value.and_then(|value| value.to_str().ok()).unwrap_or("-")
}

/// Sends all requests of a caller at once.
pub(crate) fn come(base: &Arc<str>, caller: &'static Caller) -> JoinSet<Result<Answer, BoxError>> {
    let mut requests = JoinSet::new();
    for first in (0..caller.requests).step_by(STREAMS) {
        let client = Client::builder(TokioExecutor::new())
            .http2_only(true)
            .build_http();
        for number in first..caller.requests.min(first + STREAMS) {
            requests.spawn(ask(client.clone(), Arc::clone(base), caller, number));
        }
    }
    requests
}
