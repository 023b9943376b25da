//! Everything by its path: `/api/v1`, whose answers are those of the control sockets, pages and their files.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, RawQuery, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use brindle_host::control::Ask;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::answers::{error, set_headers, told, told_as};
use crate::ask::{Silence, ask, is_name};
use crate::console::Console;
use crate::guard::{self, Admitted, Refusal};
use crate::health::Item;
use crate::peer::Peer;
use crate::program::{self, Unreported};
use crate::rates::Series;
use crate::sessions::Session;
use crate::{events, orders, pages};

/// Longest body.
const MOST: usize = 64 << 10;

/// Time that a body may take.
const BODY_PATIENCE: Duration = Duration::from_secs(5);

type Here = State<Arc<Console>>;
/// A server, and the name of something that it serves.
type ItemPath = Path<(String, String)>;

/// Everything by its path, behind the guard.
pub(crate) fn router(console: Arc<Console>) -> Router {
    Router::new()
        .route("/", get(pages::overview))
        .route("/events", get(pages::events))
        .route("/of/{server}/{name}", get(pages::item))
        .route("/login", get(pages::login).post(pages::sign_in))
        .route("/assets/{name}", get(asset))
        .route("/api/v1/session", get(session))
        .route("/api/v1/overview", get(overview))
        .route("/api/v1/status", get(status))
        .route("/api/v1/status/{server}/{name}", get(status_of))
        .route("/api/v1/detail/{server}/{name}", get(detail))
        .route("/api/v1/item/{server}/{name}", get(item))
        .route("/api/v1/events", get(latest))
        .route("/api/v1/disks/{server}", get(disks))
        .route("/api/v1/plan", get(planned))
        .route("/api/v1/orders", post(order))
        .route("/api/v1/sign-out", post(sign_out))
        .fallback(nothing)
        .layer(from_fn_with_state(Arc::clone(&console), admit))
        .with_state(console)
}

/// Lets in who may ask; whole bodies go on, with the headers that each answer has.
async fn admit(State(console): Here, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let mut answer = match judge(&console, request).await {
        Ok(request) => next.run(request).await,
        Err(refusal) => refused(refusal, &path),
    };
    let policy = if path == "/login" { "same-origin" } else { "no-referrer" };
    set_headers(answer.headers_mut(), policy);
    answer
}

async fn judge(console: &Console, request: Request) -> Result<Request, Refusal> {
    let (mut head, body) = request.into_parts();
    let admitted = guard::admit(&head, console.cookie(), &console.options.hosts, &console.sessions)?;
    let is_open = head.uri.path() == "/login" || head.uri.path().starts_with("/assets/");
    if !is_open && admitted.session.is_none() {
        return Err(guard::SIGN_IN);
    }
    if head.method == Method::POST && head.uri.path() != "/login" {
        guard::changes(&head, &admitted)?;
    }
    let body = whole(body).await?;
    head.extensions.insert(admitted);
    Ok(Request::from_parts(head, Body::from(body)))
}

/// The whole body, of bounded length and time.
async fn whole(body: Body) -> Result<Bytes, Refusal> {
    let read = Limited::new(body, MOST).collect();
    match tokio::time::timeout(BODY_PATIENCE, read).await {
        Err(_) => Err(guard::TOO_SLOW),
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(guard::TOO_LARGE),
        Ok(Err(_)) => Err(guard::CUT),
    }
}

fn refused(refusal: Refusal, path: &str) -> Response {
    let is_page = !path.starts_with("/api/") && !path.starts_with("/assets/");
    if refusal == guard::SIGN_IN && is_page {
        return (StatusCode::SEE_OTHER, [(header::LOCATION, "/login")]).into_response();
    }
    let Refusal(status, why) = refusal;
    let mut answer = error(status, why);
    if [StatusCode::PAYLOAD_TOO_LARGE, StatusCode::REQUEST_TIMEOUT].contains(&status) {
        // The rest of the body is not waited for.
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

async fn nothing() -> Response {
    error(StatusCode::NOT_FOUND, "there is nothing by that path: docs/console.md lists what there is")
}

async fn asset(State(console): Here, asked: HeaderMap, Path(name): Path<String>) -> Response {
    let Some(asset) = console.assets.find(&name) else { return nothing().await };
    let kept = (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    let tag = HeaderValue::from_str(&asset.tag).unwrap_or(HeaderValue::from_static("\"\""));
    let headers = [kept, (header::ETAG, tag.clone())];
    if asked.get(header::IF_NONE_MATCH) == Some(&tag) {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    let kind = [(header::CONTENT_TYPE, asset.kind)];
    let takes = |value: &HeaderValue| value.to_str().is_ok_and(|all| all.contains("gzip"));
    if asked.get(header::ACCEPT_ENCODING).is_some_and(takes) {
        let packed = [(header::CONTENT_ENCODING, "gzip")];
        return (headers, kind, packed, asset.packed).into_response();
    }
    (headers, kind, asset.plain()).into_response()
}

async fn session(State(console): Here, Extension(admitted): Extension<Admitted>) -> Response {
    let Some(Session { page_token, .. }) = admitted.session else {
        return refused(guard::SIGN_IN, "/api/");
    };
    told(
        &HeaderMap::new(),
        &json!({"page_token": page_token, "read_only": console.options.read_only, "version": env!("CARGO_PKG_VERSION")}),
    )
}

async fn overview(State(console): Here, asked: HeaderMap) -> Response {
    console.board.want().await;
    told_as(&asked, console.board.page())
}

async fn status(State(console): Here, asked: HeaderMap) -> Response {
    console.board.want().await;
    let all = console.board.reports();
    let values: Vec<&Value> = all.iter().flat_map(|(_, told)| told.iter()).map(|told| &told.value).collect();
    told(&asked, &values)
}

async fn status_of(State(console): Here, asked: HeaderMap, Path(place): ItemPath) -> Response {
    match found(&console, &place).await {
        Some((_, report, _)) => told(&asked, &report),
        None => nothing_served().await,
    }
}

async fn item(State(console): Here, asked: HeaderMap, Path(place): ItemPath) -> Response {
    match found(&console, &place).await {
        Some((item, report, series)) => {
            told(&asked, &json!({"item": item, "report": report, "series": series}))
        }
        None => nothing_served().await,
    }
}

async fn found(console: &Console, (server, name): &(String, String)) -> Option<(Item, Value, Series)> {
    console.board.want().await;
    console.board.item(server, name)
}

async fn nothing_served() -> Response {
    error(StatusCode::NOT_FOUND, "no server has anything of that name: it may have been stopped or renamed")
}

async fn latest(State(console): Here, asked: HeaderMap) -> Response {
    console.board.want().await;
    told(&asked, &events::latest(&console.board))
}

async fn disks(State(console): Here, asked: HeaderMap, Path(server): Path<String>) -> Response {
    if !is_name(&server) {
        return nothing_served().await;
    }
    match ask(console.board.folder(), &server, &Ask::Disks.into()).await {
        Ok(disks) => told(&asked, &disks),
        Err(why) => silent(&server, &why),
    }
}

async fn planned(State(console): Here, asked: HeaderMap, RawQuery(query): RawQuery) -> Response {
    let plan = program::plan(&console.options.program, query.as_deref().unwrap_or_default());
    reported(&asked, plan.await)
}

async fn detail(State(console): Here, asked: HeaderMap, Path(place): ItemPath) -> Response {
    match found(&console, &place).await {
        Some((_, report, _)) => reported(&asked, program::detail(&console.options.program, &report).await),
        None => nothing_served().await,
    }
}

fn reported(asked: &HeaderMap, report: Result<Vec<u8>, Unreported>) -> Response {
    match report {
        Ok(told) => told_as(asked, told.into()),
        Err(Unreported::Asked(why)) => error(StatusCode::BAD_REQUEST, &why),
        Err(Unreported::Made(why)) => error(StatusCode::BAD_GATEWAY, &why),
    }
}

fn silent(server: &str, why: &Silence) -> Response {
    let status = match why {
        Silence::Refused(_) => StatusCode::CONFLICT,
        Silence::Gone => StatusCode::NOT_FOUND,
        Silence::Closed => StatusCode::FORBIDDEN,
        Silence::Silent => StatusCode::GATEWAY_TIMEOUT,
        Silence::Cut | Silence::Misread { .. } => StatusCode::BAD_GATEWAY,
    };
    error(status, &why.words(server))
}

async fn order(
    State(console): Here,
    Extension(admitted): Extension<Admitted>,
    Extension(peer): Extension<Peer>,
    body: Bytes,
) -> Response {
    if console.options.read_only {
        return refused(guard::READ_ONLY, "/api/");
    }
    let user = rustix::process::geteuid().as_raw();
    let order = match orders::read(&body, user) {
        Ok(order) => order,
        Err(orders::Unfit(true, why)) => return error(StatusCode::BAD_REQUEST, &why),
        Err(orders::Unfit(false, why)) => return error(StatusCode::FORBIDDEN, &why),
    };
    let session = admitted.session.map_or(0, |session| session.number);
    // A server of one array takes any name for it: what is not on the page is not meant.
    console.board.want().await;
    if let Some(array) = &order.request.array
        && console.board.has(&order.server, array) == Some(false)
    {
        return nothing_served().await;
    }
    let outcome = ask(console.board.folder(), &order.server, &order.request).await;
    let words = match &outcome {
        Ok(_) => "done".to_owned(),
        Err(why) => format!("refused: {}", why.words(&order.server)),
    };
    let line = format!("{peer} (session {session}), server {}: {}: {words}", order.server, order.command);
    eprintln!("brindle-console: {}", line.escape_debug());
    console.board.look_again().await;
    match outcome {
        Ok(done) => told(&HeaderMap::new(), &json!({"ok": done, "command": order.command})),
        Err(why) => silent(&order.server, &why),
    }
}

async fn sign_out(State(console): Here, Extension(admitted): Extension<Admitted>) -> Response {
    if let Some(session) = admitted.session {
        console.sessions.sign_out(session.number);
    }
    let forget = format!("{}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict", console.cookie());
    (StatusCode::NO_CONTENT, [(header::SET_COOKIE, forget)]).into_response()
}
