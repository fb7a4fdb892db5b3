//! Whether a cluster is healthy: asks it, and keeps short disturbances from being published.

use std::time::Duration;

use http::{Request, StatusCode};
use karmada_api::conditions::cluster::{READY, reason};
use karmada_api::meta::Condition;
use karmada_client::{Body, Client, Error};
use tokio::time::Instant;

/// How a cluster answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Health {
    Ready,
    /// It answered, but not that it is well.
    NotReady,
    Unreachable,
}

/// Asks for the health, for at most `patience`.
pub(super) async fn probe(client: &Client, patience: Duration) -> Health {
    match tokio::time::timeout(patience, ask(client)).await {
        Ok(Ok(StatusCode::OK)) => Health::Ready,
        Ok(Ok(_)) => Health::NotReady,
        // Compat: any refusal counts as unreachable, also an answered 500.
        Ok(Err(error)) => {
            tracing::debug!(%error, "the cluster is not well");
            Health::Unreachable
        }
        Err(_) => Health::Unreachable,
    }
}

async fn ask(client: &Client) -> Result<StatusCode, Error> {
    match ask_path(client, "/readyz").await {
        Err(error) if error.is_not_found() => ask_path(client, "/healthz").await,
        answer => answer,
    }
}

async fn ask_path(client: &Client, path: &'static str) -> Result<StatusCode, Error> {
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = http::Uri::from_static(path);
    Ok(client.send(request).await?.status())
}

impl Health {
    pub(super) fn condition(self) -> Condition {
        let (status, reason, message) = match self {
            Self::Ready => {
                ("True", reason::CLUSTER_READY, "cluster is healthy and ready to accept workloads")
            }
            Self::NotReady => (
                "False",
                reason::CLUSTER_NOT_READY,
                "cluster is reachable but health endpoint responded without ok",
            ),
            Self::Unreachable => {
                ("False", reason::CLUSTER_NOT_REACHABLE, "cluster is not reachable")
            }
        };
        ready(status, reason, message)
    }
}

pub(super) fn ready(status: &str, reason: &str, message: impl Into<String>) -> Condition {
    Condition {
        r#type: READY.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.into(),
        ..Condition::default()
    }
}

/// What has been observed of one cluster, to tell disturbances from changes.
#[derive(Debug, Default)]
pub(super) struct Dampener {
    /// The last observed status, and since when it is observed.
    last: Option<(String, Instant)>,
}

impl Dampener {
    /// Returns the condition to publish: a change between ready and not ready has to last before
    /// it replaces what is published. The first observation is taken at face value.
    pub(super) fn filter(
        &mut self,
        published: Option<&Condition>,
        observed: Condition,
        success: Duration,
        failure: Duration,
    ) -> Condition {
        let now = Instant::now();
        let since = match &self.last {
            None => {
                self.last = Some((observed.status.clone(), now));
                return observed;
            }
            Some((status, since)) if *status == observed.status => *since,
            Some(_) => {
                self.last = Some((observed.status.clone(), now));
                now
            }
        };
        let Some(published) = published else { return observed };
        let threshold = if observed.is_true() { success } else { failure };
        let lasts = now.duration_since(since) >= threshold;
        if observed.is_true() != published.is_true() && !lasts {
            return published.clone();
        }
        observed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_change_is_published_once_it_has_lasted() {
        let seconds = Duration::from_secs;
        let (up, down) = (Health::Ready.condition(), Health::Unreachable.condition());
        let mut unknown = up.clone();
        unknown.status = "Unknown".to_owned();
        // (seconds later, published, observed, to publish)
        let steps = [
            (0, None, &up, &up),
            (10, Some(&up), &down, &up),
            (20, Some(&up), &down, &up),
            (9, Some(&up), &down, &up),
            (1, Some(&up), &down, &down),
            (10, Some(&down), &up, &down),
            (10, Some(&down), &down, &down),
            (10, Some(&down), &up, &down),
            (29, Some(&down), &up, &down),
            (1, Some(&down), &up, &up),
            (5, Some(&unknown), &down, &down),
        ];
        let mut dampener = Dampener::default();
        for (place, (later, published, observed, expected)) in steps.into_iter().enumerate() {
            tokio::time::advance(seconds(later)).await;
            let found = dampener.filter(published, observed.clone(), seconds(30), seconds(30));
            assert_eq!(&found, expected, "step {place}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_observation_is_taken_at_face_value() {
        let (up, down) = (Health::Ready.condition(), Health::NotReady.condition());
        let found = Dampener::default().filter(
            Some(&up),
            down.clone(),
            Duration::from_secs(30),
            Duration::from_secs(30),
        );
        assert_eq!(found, down);
    }
}
