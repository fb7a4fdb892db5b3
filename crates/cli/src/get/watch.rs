//! `get --watch`: prints what is there and then every change, until interrupted.

use futures::stream::{SelectAll, StreamExt as _};
use http_body_util::BodyExt as _;
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::request::Query;

use super::fetch::{self, Asked};
use super::{Looked, look, of_server};
use crate::error::{Error, Result};
use crate::output::table::{Part, TablePrinter};
use crate::output::{self, Format};

pub(super) async fn run(
    looked: &[Looked<'_>],
    asked: &Asked<'_>,
    format: Option<&Format>,
) -> Result<()> {
    let several = looked.iter().any(|one| one.wanted.resource.gvr != looked[0].wanted.resource.gvr);
    if several || looked.iter().any(|one| one.wanted.names.len() > 1) {
        return Err(Error::from(
            "watch is only supported on individual resources and resource collections",
        ));
    }
    let Some(first) = looked.first() else { return Ok(()) };
    let look = look(asked, &first.wanted.resource, false);
    let mut printer = TablePrinter::default();
    let mut changes = SelectAll::new();
    for (place, one) in looked.iter().enumerate() {
        let (table, errors) = fetch::table(one, asked).await;
        Error::combine(errors.into_iter().map(|error| of_server(one.server, error)).collect())?;
        if !asked.args.watch_only {
            let text = match format {
                None => printer.render(&[part_of(one, &table)], &look, None),
                Some(format) => initial(one, asked, format).await?,
            };
            output::print(&text)?;
        }
        let lines = open(one, asked, &table, format.is_some()).await?;
        changes.push(lines.map(move |line| (place, line)).boxed());
    }
    while let Some((place, line)) = changes.next().await {
        let one = &looked[place];
        let event: Value = serde_json::from_str(&line?).map_err(|error| error.to_string())?;
        let kind = event.str_at(&["type"]).unwrap_or_default().to_owned();
        let object = event.get("object").cloned().unwrap_or_default();
        if kind == "ERROR" {
            let message = object.str_at(&["message"]).unwrap_or("the watch ended").to_owned();
            return Err(of_server(one.server, Error::Message(message)));
        }
        let text = match format {
            None => printer.render(&[part_of(one, &object)], &look, Some(&kind)),
            Some(format) => {
                output::render(format, &asked.args.print, &shown(asked, &kind, object))?
            }
        };
        output::print(&text)?;
    }
    Ok(())
}

/// With `--output-watch-events` an object is wrapped in what happened to it.
fn shown(asked: &Asked<'_>, kind: &str, object: Value) -> Value {
    if asked.args.output_watch_events {
        return karmada_apimachinery::json!({"type": kind, "object": object});
    }
    object
}

async fn initial(one: &Looked<'_>, asked: &Asked<'_>, format: &Format) -> Result<String> {
    let (objects, errors) = fetch::objects(one, asked).await;
    Error::combine(errors)?;
    objects
        .into_iter()
        .map(|object| output::render(format, &asked.args.print, &shown(asked, "ADDED", object)))
        .collect()
}

fn part_of(one: &Looked<'_>, table: &Value) -> Part {
    Part {
        cluster: one.server.label().to_owned(),
        is_karmada: one.server.member.is_none(),
        table: table.clone(),
    }
}

/// The lines of a watch that goes on where the table ends.
async fn open(
    one: &Looked<'_>,
    asked: &Asked<'_>,
    table: &Value,
    whole: bool,
) -> Result<impl futures::Stream<Item = Result<String>> + Send + 'static> {
    let name = one.wanted.names.first();
    let mut query = Query::default();
    let version = table.str_at(&["metadata", "resourceVersion"]).unwrap_or_default();
    query
        .flag("watch", true)
        .add("includeObject", asked.include())
        .add("labelSelector", &asked.args.labels)
        .add("resourceVersion", version)
        .add(
            "fieldSelector",
            &name.map_or_else(String::new, |name| format!("metadata.name={name}")),
        );
    let path = query.append_to(asked.path(one, ""));
    let request = if whole {
        http::Request::get(&path)
            .header(http::header::ACCEPT, "application/json")
            .body(karmada_client::Body::empty())
            .map_err(|error| error.to_string())?
    } else {
        fetch::table_request(&path)?
    };
    let body = one.server.client.send(request).await?.into_body();
    Ok(lines(body.into_data_stream().boxed()))
}

fn lines<E: std::fmt::Display + 'static>(
    chunks: futures::stream::BoxStream<'static, std::result::Result<impl AsRef<[u8]> + 'static, E>>,
) -> impl futures::Stream<Item = Result<String>> + Send + 'static {
    futures::stream::unfold((chunks, Vec::new()), |(mut chunks, mut buffer)| async move {
        loop {
            if let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = buffer.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line).into_owned();
                return Some((Ok(line), (chunks, buffer)));
            }
            match chunks.next().await? {
                Ok(chunk) => buffer.extend_from_slice(chunk.as_ref()),
                Err(error) => {
                    return Some((Err(Error::Message(error.to_string())), (chunks, Vec::new())));
                }
            }
        }
    })
}
