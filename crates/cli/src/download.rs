//! Files that are named by an address.

use http::{Request, Uri, header};
use http_body_util::BodyExt as _;
use karmada_client::Body;

use crate::error::{Error, Result};
use crate::progress;

/// How often an answer may point somewhere else.
const REDIRECTS: usize = 10;

/// How much of a file is read.
const LARGEST: usize = 64 << 20;

pub(crate) fn is_address(name: &str) -> bool {
    name.starts_with("http://") || name.starts_with("https://")
}

/// The text behind an address.
pub(crate) async fn text(address: &str) -> Result<String> {
    let mut here = address.to_owned();
    for _ in 0..REDIRECTS {
        match fetch(&here).await.map_err(|problem| unreadable(address, &problem))? {
            Answer::Text(text) => return Ok(text),
            Answer::Elsewhere(next) => {
                here = resolve(&here, &next)
                    .ok_or_else(|| unreadable(address, &format!("it points to {next:?}")))?;
            }
        }
    }
    Err(unreadable(address, "it points in circles"))
}

fn unreadable(address: &str, problem: &str) -> Error {
    Error::Message(format!("unable to read URL {address:?}: {problem}"))
}

enum Answer {
    Text(String),
    Elsewhere(String),
}

async fn fetch(address: &str) -> Result<Answer, String> {
    let uri: Uri = address.parse().map_err(|error| format!("{error}"))?;
    let (scheme, host) =
        (uri.scheme_str().unwrap_or("https"), uri.authority().map(|host| host.as_str()));
    let host = host.ok_or("it names no host")?;
    let base: Uri = format!("{scheme}://{host}").parse().map_err(|error| format!("{error}"))?;
    let client = kube::Client::try_from(kube::Config::new(base)).map_err(|error| chain(&error))?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path).body(Body::empty()).map_err(|error| error.to_string())?;
    let _waiting = progress::wait_for(address);
    let response = client.send(request).await.map_err(|error| chain(&error))?;
    let status = response.status();
    if status.is_redirection() {
        let location = response.headers().get(header::LOCATION).and_then(|at| at.to_str().ok());
        return Ok(Answer::Elsewhere(location.unwrap_or_default().to_owned()));
    }
    if !status.is_success() {
        return Err(format!("server reported {status}"));
    }
    let limited = http_body_util::Limited::new(response.into_body(), LARGEST);
    let body = limited.collect().await.map_err(|error| error.to_string())?.to_bytes();
    String::from_utf8(body.to_vec()).map(Answer::Text).map_err(|_| "it is no text".to_owned())
}

/// Where an address that stands in another leads.
fn resolve(here: &str, next: &str) -> Option<String> {
    if is_address(next) {
        return Some(next.to_owned());
    }
    let (scheme, rest) = here.split_once("://")?;
    let host = rest.split('/').next()?;
    next.starts_with('/').then(|| format!("{scheme}://{host}{next}"))
}

fn chain(error: &kube::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_on() {
        assert_eq!(resolve("http://a/b", "https://c/d").as_deref(), Some("https://c/d"));
        assert_eq!(resolve("http://a/b", "/d").as_deref(), Some("http://a/d"));
        assert_eq!(resolve("http://a/b", "d"), None);
        assert!(!is_address("httpd.yaml") && is_address("https://a"));
    }
}
