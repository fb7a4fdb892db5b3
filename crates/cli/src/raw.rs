//! `--raw`: text sent to an address of the server as it stands in a file, and the answer printed as it comes.

use std::io::Read as _;

use http::Method;

use crate::context::Server;
use crate::error::{Error, Result};
use crate::files::FileFlags;
use crate::output;

pub(crate) async fn send(
    server: &Server,
    method: Method,
    path: &str,
    files: &FileFlags,
) -> Result<()> {
    let text = match files.filename.as_slice() {
        [] if method == Method::DELETE => String::new(),
        [only] if only == "-" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            text
        }
        [only] => std::fs::read_to_string(only)
            .map_err(|error| Error::Message(format!("error reading {only}: {error}")))?,
        _ => return Err(Error::from("--raw can only use a single local file or stdin")),
    };
    let form = match text.trim_start().starts_with(['{', '[']) {
        true => "application/json",
        false => "application/yaml",
    };
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::CONTENT_TYPE, form)
        .header(http::header::ACCEPT, "application/json")
        .body(karmada_client::Body::from(text.into_bytes()))
        .map_err(|error| Error::Message(format!("--raw {path}: {error}")))?;
    let answer = server.client.request_bytes(request).await?;
    output::print(&String::from_utf8_lossy(&answer))
}
