//! Passes requests on to another server: one connection per request, with HTTP/1.1 on it so that it
//! can be switched to another protocol. Nothing is kept in memory but what is on its way.

use std::io;

use futures::StreamExt as _;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::body::{self, Body};

/// How much of the head of an answer is read before it is refused.
const MAX_HEAD: usize = 256 << 10;

/// Headers that are about one connection and not about what is passed on.
const HOP_BY_HOP: [HeaderName; 6] = [
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::TE,
    header::TRAILER,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error("invalid upgrade response: status code {0}")]
    NoUpgrade(u16),
}

/// An open connection to another server.
pub struct Way {
    sender: SendRequest<Body>,
    authority: String,
}

impl Way {
    /// Speaks HTTP over a stream; `authority` is what the other side is called.
    pub async fn over<S>(stream: S, authority: String) -> Result<Self, Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut builder = http1::Builder::new();
        builder.max_buf_size(MAX_HEAD);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        // It ends with the exchange it is for.
        tokio::spawn(connection.with_upgrades());
        Ok(Self { sender, authority })
    }

    /// Sends a request and returns its answer, whose body may take as long as it likes.
    pub async fn send(mut self, mut request: Request<Body>) -> Result<Response<Body>, Error> {
        self.address(&mut request);
        forget_connection(request.headers_mut());
        request.headers_mut().remove(header::UPGRADE);
        let mut response = self.sender.send_request(request).await?.map(relay);
        forget_connection(response.headers_mut());
        Ok(response)
    }

    /// Switches both connections to the protocol the client asks for, if the other side agrees.
    pub async fn switch(
        mut self,
        mut request: Request<Body>,
        client: OnUpgrade,
    ) -> Result<Response<Body>, Error> {
        self.address(&mut request);
        let mut response = self.sender.send_request(request).await?;
        let status = response.status();
        if status != StatusCode::SWITCHING_PROTOCOLS {
            if status.as_u16() < 400 {
                return Err(Error::NoUpgrade(status.as_u16()));
            }
            let mut response = response.map(relay);
            forget_connection(response.headers_mut());
            return Ok(response);
        }
        let server = hyper::upgrade::on(&mut response);
        tokio::spawn(copy(client, server));
        let (parts, _) = response.into_parts();
        Ok(Response::from_parts(parts, body::empty()))
    }

    /// Makes a request one of HTTP/1.1 to this server, wherever it came from.
    fn address(&self, request: &mut Request<Body>) {
        if let Ok(host) = HeaderValue::from_str(&self.authority) {
            request.headers_mut().insert(header::HOST, host);
        }
        if let Some(path) = request.uri().path_and_query().cloned() {
            *request.uri_mut() = path.into();
        }
        *request.version_mut() = http::Version::HTTP_11;
    }
}

fn forget_connection(headers: &mut HeaderMap) {
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

/// Carries bytes both ways until one side ends.
async fn copy(client: OnUpgrade, server: OnUpgrade) {
    let (client, server) = match tokio::try_join!(client, server) {
        Ok(both) => both,
        Err(error) => {
            tracing::debug!(%error, "the connection was not switched");
            return;
        }
    };
    let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
    if let Err(error) = tokio::io::copy_bidirectional(&mut client, &mut server).await {
        tracing::debug!(%error, "a switched connection ended");
    }
}

/// The body of another server as one of ours. It does not tell its size, whatever was announced: it
/// is streamed and never collected.
fn relay(body: hyper::body::Incoming) -> Body {
    let chunks = body.into_data_stream().map(|chunk| match chunk {
        Ok(data) => Ok(Frame::data(data)),
        Err(error) => Err(io::Error::other(error)),
    });
    StreamBody::new(chunks).boxed_unsync()
}
