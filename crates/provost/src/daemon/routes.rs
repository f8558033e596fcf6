//! The routes of the API. Each module makes the engine requests of its routes.

mod daemon;
mod events;
mod history;
mod reports;
mod request;
mod runs;
mod sessions;
mod teams;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    handler::Handler,
    routing::{get, post},
};
use provost_api::{ApiError, ErrorCode};

use super::server::DaemonServer;
pub(crate) use request::ErrorResponse;
pub(super) use request::MAX_REQUEST;

/// The routes of the router, which must be those of the API.
#[derive(Default)]
struct RouteTable {
    router: Router<DaemonServer>,
    paths: Vec<(&'static str, &'static str)>,
}

impl RouteTable {
    fn get<T: 'static>(mut self, path: &'static str, to: impl Handler<T, DaemonServer>) -> Self {
        self.paths.push(("GET", path));
        RouteTable { router: self.router.route(path, get(to)), ..self }
    }

    fn post<T: 'static>(mut self, path: &'static str, to: impl Handler<T, DaemonServer>) -> Self {
        self.paths.push(("POST", path));
        RouteTable { router: self.router.route(path, post(to)), ..self }
    }
}

pub(crate) fn router(daemon: DaemonServer) -> Router {
    routes()
        .router
        .fallback(not_found)
        .method_not_allowed_fallback(not_found)
        .layer(DefaultBodyLimit::max(MAX_REQUEST))
        .layer(axum::middleware::from_fn_with_state(daemon.clone(), super::server::admit))
        .with_state(daemon)
}

fn routes() -> RouteTable {
    RouteTable::default()
        .get("/v1/daemon", daemon::info)
        .get("/v1/daemon/operator", daemon::operator)
        .get("/v1/lookup", daemon::look_up)
        .post("/v1/daemon/stop", daemon::stop_daemon)
        .get("/v1/sessions", sessions::list)
        .post("/v1/sessions", sessions::open)
        .get("/v1/sessions/{id}", sessions::row)
        .get("/v1/sessions/{id}/why", sessions::why)
        .post("/v1/sessions/{id}/send", sessions::send)
        .post("/v1/sessions/{id}/interrupt", sessions::interrupt)
        .post("/v1/sessions/{id}/compact", sessions::compact)
        .post("/v1/sessions/{id}/stop", sessions::stop)
        .post("/v1/sessions/{id}/cancel", sessions::cancel)
        .post("/v1/sessions/{id}/resolve", sessions::resolve)
        .post("/v1/sessions/{id}/answer", sessions::answer)
        .post("/v1/sessions/{id}/limit", sessions::limit)
        .post("/v1/sessions/{id}/rename", sessions::rename)
        .post("/v1/sessions/{id}/take-over", sessions::take_over)
        .get("/v1/runs", runs::list)
        .post("/v1/runs", runs::open)
        .get("/v1/runs/{id}", runs::row)
        .get("/v1/runs/{id}/graph", runs::graph)
        .post("/v1/runs/{id}/approve", runs::approve)
        .post("/v1/runs/{id}/reject", runs::reject)
        .post("/v1/runs/{id}/cancel", runs::cancel)
        .post("/v1/runs/{id}/resume", runs::resume)
        .post("/v1/runs/{id}/take-over", runs::take_over)
        .post("/v1/runs/{id}/limit", runs::limit)
        .get("/v1/teams", teams::list)
        .post("/v1/teams", teams::open)
        .get("/v1/teams/{id}", teams::row)
        .get("/v1/teams/{id}/messages", teams::messages)
        .get("/v1/teams/{id}/cycle", teams::cycle)
        .get("/v1/teams/{id}/wait", teams::wait)
        .get("/v1/teams/{id}/handoff", teams::handoff)
        .post("/v1/teams/{id}/do", teams::command)
        .post("/v1/teams/{id}/next", teams::next)
        .post("/v1/pairs", teams::pair)
        .post("/v1/reports", reports::take_report)
        .post("/v1/calls", reports::take_call)
        .get("/v1/events", events::events)
        .get("/v1/history/{id}", history::as_of)
        .get("/v1/teams/{id}/replay", history::replay)
        .get("/v1/teams/{id}/audit", history::audit)
        .get("/v1/search", history::search)
        .get("/v1/telemetry", history::telemetry)
        .post("/v1/verify", daemon::verify)
        .post("/v1/gc", daemon::collect)
        .post("/v1/ledger/archive", daemon::archive)
        .post("/v1/ledger/stop-unknown", daemon::stop_unknown)
}

async fn not_found() -> ErrorResponse {
    ApiError::new(ErrorCode::NotFound, "there is no such path").next("provost help").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn router_serves_exactly_the_routes_of_the_api() {
        let documented: Vec<_> =
            provost_api::ROUTES.iter().map(|route| (route.method, route.path)).collect();
        assert_eq!(routes().paths, documented);
    }
}
