//! `PrefixIndex` between the two layers: who has seen the beginning of a prompt gets the rest.

use std::convert::Infallible;

use futures::FutureExt;
use http::{Request, Response};
use http_body_util::{Empty, Full};
use serde_json::{Value, json};
use tower::{ServiceBuilder, ServiceExt, service_fn, util::BoxCloneService};
use tower_policy_queue::{
    Admission, PolicyQueueLayer,
    openai::{OpenAiHintsLayer, PrefixIndex},
};

use crate::{CHAT, common::desk::policy};

const POLICY: &str = "
default_policy_family: chat
uncached_isl_buckets: [{min_tokens: 0, bucket: cached}, {min_tokens: 512, bucket: uncached}]
policy_classes:
  - {name: cached, policy_family: chat, cache_bucket: cached, quantum: 100}
  - {name: uncached, policy_family: chat, cache_bucket: uncached, quantum: 100}
dominions: [{id: pool, kind: remote, max_concurrency: 8}]
endpoints:
  - {id: left, dominion: pool, models: [m]}
  - {id: right, dominion: pool, models: [m]}
";

type Server = BoxCloneService<Request<Full<bytes::Bytes>>, (String, String), tower::BoxError>;

/// Answers with the class and the worker of each request.
fn server(index: &PrefixIndex) -> Server {
    fn place<B>(response: Response<B>) -> (String, String) {
        let admission: &Admission = response.extensions().get().expect("it was admitted");
        (
            admission.class().to_owned(),
            admission.worker().expect("to a worker").to_owned(),
        )
    }
    let queue = PolicyQueueLayer::new(policy(POLICY)).cached_tokens(index.clone());
    let service = ServiceBuilder::new()
        .map_response(place)
        .map_err(tower::BoxError::from)
        .layer(OpenAiHintsLayer::new())
        .layer(queue)
        .service(service_fn(|_: Request<_>| async {
            Ok::<_, Infallible>(Response::new(Empty::<bytes::Bytes>::new()))
        }));
    BoxCloneService::new(service)
}

fn ask(server: &Server, messages: &[Value]) -> (String, String) {
    let body = json!({"model": "m", "messages": messages}).to_string();
    let request = Request::post(CHAT)
        .header("content-type", "application/json")
        .body(Full::from(body))
        .unwrap();
    server
        .clone()
        .oneshot(request)
        .now_or_never()
        .expect("at once")
        .unwrap()
}

fn said(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}

fn at(class: &str, worker: &str) -> (String, String) {
    (class.to_owned(), worker.to_owned())
}

/// About 1,000 tokens.
fn essay(about: &str) -> String {
    format!("An essay about {about}. ").repeat(4000 / (17 + about.len()))
}

#[test]
fn a_conversation_that_goes_on_is_cheap_and_stays_where_it_began() {
    let server = server(&PrefixIndex::new());
    let mut first = vec![said("user", &essay("cats"))];
    assert_eq!(
        ask(&server, &first),
        at("uncached", "left"),
        "it is new to everybody"
    );

    first.extend([said("assistant", "Thank you."), said("user", "Shorter?")]);
    assert_eq!(
        ask(&server, &first),
        at("cached", "left"),
        "what is new of it is short"
    );

    let other = vec![said("user", &essay("dogs"))];
    assert_eq!(
        ask(&server, &other).0,
        "uncached",
        "another one is none of its business"
    );
}

#[test]
fn what_was_forgotten_is_new_again() {
    let index = PrefixIndex::with_blocks_per_worker(20);
    let server = server(&index);
    let cats = [said("user", &essay("cats"))];
    ask(&server, &cats);
    assert_eq!(ask(&server, &cats).0, "cached");
    // A block has 256 bytes, so this takes the place of all that was there.
    ask(&server, &[said("user", &essay("dogs").repeat(2))]);
    assert_eq!(ask(&server, &cats).0, "uncached");

    assert_eq!(ask(&server, &cats).0, "cached");
    index.forget("left");
    index.forget("right");
    assert_eq!(
        ask(&server, &cats).0,
        "uncached",
        "its workers were restarted"
    );
}

#[test]
fn a_conversation_begun_alike_is_cached_as_far_as_it_is_alike() {
    let server = server(&PrefixIndex::new());
    let shared = said("system", &essay("manners"));
    ask(&server, &[shared.clone(), said("user", "Hello")]);
    assert_eq!(
        ask(&server, &[shared.clone(), said("user", "Good morning")]).0,
        "cached"
    );
    let long = [shared, said("user", &essay("cats"))];
    assert_eq!(
        ask(&server, &long).0,
        "uncached",
        "the rest is long enough by itself"
    );
    let changed = [
        said("system", &format!("No. {}", essay("manners"))),
        said("user", "Hello"),
    ];
    assert_eq!(
        ask(&server, &changed).0,
        "uncached",
        "only beginnings count"
    );
}
