//! Answers: their headers, JSON that is not sent twice, errors.

use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use serde::Serialize;
use serde_json::json;

use crate::assets::tag;

/// No code within pages, nothing from elsewhere, in no frame; nothing is kept.
pub(crate) fn set_headers(headers: &mut HeaderMap, referrer: &'static str) {
    const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
                          base-uri 'none'; frame-ancestors 'none'";
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, referrer),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), "camera=(), microphone=(), geolocation=()"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

/// An answer of JSON, which is not sent again to who has it.
pub(crate) fn told(asked: &HeaderMap, value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => told_as(asked, bytes.into()),
        Err(_) => error(StatusCode::INTERNAL_SERVER_ERROR, "the answer can't be written"),
    }
}

/// The same of JSON as it is written.
pub(crate) fn told_as(asked: &HeaderMap, bytes: Bytes) -> Response {
    let own = tag(&bytes);
    let has = asked.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == own.as_bytes());
    let headers = [(header::ETAG, own), (header::CACHE_CONTROL, "no-cache".to_owned())];
    if has {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    (headers, [(header::CONTENT_TYPE, "application/json")], bytes).into_response()
}

/// An error, with the reason.
pub(crate) fn error(status: StatusCode, why: &str) -> Response {
    let body = json!({ "error": why }).to_string();
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}
