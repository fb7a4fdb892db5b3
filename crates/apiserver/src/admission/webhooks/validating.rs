//! Validating webhooks: all at once; the first refusal in their order decides.

use futures::future::join_all;
use karmada_apimachinery::status::Status;

use super::{ask, hooks, wants};
use crate::admission::request::Subject;

/// Asks every webhook that wants to be asked.
pub(crate) async fn validate(subject: &Subject<'_>) -> Result<(), Status> {
    let hooks = hooks(subject.call, "validatingwebhookconfigurations");
    let asked = hooks.iter().map(|hook| async move {
        let Some(view) = wants(hook, subject).await? else { return Ok(()) };
        ask(hook, subject, &view).await.map(|_| ())
    });
    join_all(asked).await.into_iter().collect()
}
