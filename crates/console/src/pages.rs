//! Pages: what stands in them before their scripts have asked, and the way in.

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{Html, IntoResponse, Response};
use hyper::StatusCode;
use hyper::header;

use crate::answers::error;
use crate::console::Console;
use crate::guard::Admitted;
use crate::peer::Peer;

type Here = State<Arc<Console>>;

#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    /// The script's part: `overview`, `item`, `events`.
    part: &'a str,
    host: &'a str,
    page_token: &'a str,
    read_only: bool,
}

#[derive(Template)]
#[template(path = "login.html")]
struct Login<'a> {
    host: &'a str,
    wrong: bool,
}

fn page(console: &Console, admitted: &Admitted, part: &str) -> Response {
    let host = host();
    let token = admitted.session.as_ref().map_or("", |session| &session.page_token);
    let read_only = console.options.read_only;
    show(&Page { part, host: &host, page_token: token, read_only }, StatusCode::OK)
}

fn show(page: &impl Template, status: StatusCode) -> Response {
    match page.render() {
        Ok(text) => (status, Html(text)).into_response(),
        Err(_) => error(StatusCode::INTERNAL_SERVER_ERROR, "the page can't be written"),
    }
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

pub(crate) async fn overview(State(console): Here, Extension(admitted): Extension<Admitted>) -> Response {
    page(&console, &admitted, "overview")
}

pub(crate) async fn events(State(console): Here, Extension(admitted): Extension<Admitted>) -> Response {
    page(&console, &admitted, "events")
}

pub(crate) async fn item(State(console): Here, Extension(admitted): Extension<Admitted>) -> Response {
    page(&console, &admitted, "item")
}

pub(crate) async fn login(Extension(admitted): Extension<Admitted>) -> Response {
    if admitted.session.is_some() {
        return (StatusCode::SEE_OTHER, [(header::LOCATION, "/")]).into_response();
    }
    show(&Login { host: &host(), wrong: false }, StatusCode::OK)
}

/// Takes the token once; from then on a cookie stands for it.
pub(crate) async fn sign_in(
    State(console): Here,
    Extension(admitted): Extension<Admitted>,
    Extension(peer): Extension<Peer>,
    body: Bytes,
) -> Response {
    let token = std::str::from_utf8(&body).ok().and_then(|body| body.strip_prefix("token="));
    // The sign of a blank, as browsers write it, may stand around what was pasted.
    let token = token.map(|token| token.trim_matches(['+', ' ']));
    let Some(session) = token.and_then(|token| console.sessions.sign_in(token)) else {
        eprintln!("brindle-console: {peer}: a wrong token");
        return show(&Login { host: &host(), wrong: true }, StatusCode::FORBIDDEN);
    };
    eprintln!("brindle-console: {peer}: session {} begins", session.number);
    let secure = if admitted.is_secure { "; Secure" } else { "" };
    let cookie =
        format!("{}={}; Path=/; HttpOnly; SameSite=Strict{secure}", console.cookie(), session.secret);
    (StatusCode::SEE_OTHER, [(header::LOCATION, "/".to_owned()), (header::SET_COOKIE, cookie)])
        .into_response()
}
