//! Connections through the proxy that a Cluster or a kubeconfig names: HTTP (`CONNECT`), with or
//! without TLS, and SOCKS 5. kube's own are not used: they cannot send the headers a Cluster asks for.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::future::BoxFuture;
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use kube::client::ConfigExt as _;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The longest answer of a proxy to a request for a tunnel.
const LONGEST_ANSWER: usize = 8 << 10;

/// Something bytes go through.
pub trait Channel: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Channel for T {}

#[derive(Debug, thiserror::Error)]
pub enum TunnelError {
    #[error("{0} is no address of a proxy")]
    Address(String),
    #[error("proxies over {0} are not supported")]
    Scheme(String),
    #[error("dial {address}")]
    Dial { address: String, source: io::Error },
    #[error("certificates of the proxy: {0}")]
    Certificates(String),
    #[error("the proxy {proxy} refused the tunnel: {answer}")]
    Refused { proxy: String, answer: String },
}

/// A proxy to go through.
#[derive(Debug, Clone)]
pub struct Proxy {
    kind: Kind,
    host: String,
    port: u16,
    /// Name and password, decoded.
    credentials: Option<(String, String)>,
    headers: Vec<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Http,
    Https,
    Socks,
}

impl Proxy {
    /// Reads `http://`, `https://` and `socks5://` addresses; the headers go to HTTP proxies.
    pub fn new(url: &str, headers: &BTreeMap<String, String>) -> Result<Self, TunnelError> {
        let refuse = || TunnelError::Address(url.to_owned());
        let parsed: Uri = url.parse().map_err(|_| refuse())?;
        let (kind, usual) = match parsed.scheme_str().unwrap_or_default() {
            "http" => (Kind::Http, 80),
            "https" => (Kind::Https, 443),
            "socks5" | "socks5h" => (Kind::Socks, 1080),
            other => return Err(TunnelError::Scheme(other.to_owned())),
        };
        let host = parsed.host().filter(|host| !host.is_empty()).ok_or_else(refuse)?;
        let userinfo = parsed.authority().and_then(|authority| authority.as_str().rsplit_once('@'));
        let credentials = userinfo.map(|(userinfo, _)| {
            let (name, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
            (decode(name), decode(password))
        });
        // Compat: several values of one header are separated by commas.
        let headers = headers.iter().flat_map(|(name, values)| {
            values.split(',').map(|value| (name.clone(), value.trim().to_owned()))
        });
        Ok(Self {
            kind,
            host: host.trim_matches(['[', ']']).to_owned(),
            port: parsed.port_u16().unwrap_or(usual),
            credentials,
            headers: headers.collect(),
        })
    }

    fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Opens a connection to `host` on the other side.
    pub async fn connect(&self, host: &str, port: u16) -> Result<Box<dyn Channel>, TunnelError> {
        let dial = |source| TunnelError::Dial { address: self.address(), source };
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(dial)?;
        let mut stream: Box<dyn Channel> = match self.kind {
            Kind::Https => Box::new(self.wrap(stream).await?),
            Kind::Http | Kind::Socks => Box::new(stream),
        };
        let refusal = match self.kind {
            Kind::Http | Kind::Https => self.ask_http(&mut stream, host, port).await,
            Kind::Socks => self.ask_socks(&mut stream, host, port).await,
        };
        match refusal.map_err(dial)? {
            None => Ok(stream),
            Some(answer) => Err(TunnelError::Refused { proxy: self.address(), answer }),
        }
    }

    async fn wrap(&self, stream: TcpStream) -> Result<impl Channel + use<>, TunnelError> {
        let url = format!("https://{}", self.address()).parse().unwrap_or_default();
        let config = kube::Config::new(url).rustls_client_config();
        let config = config.map_err(|error| TunnelError::Certificates(error.to_string()))?;
        let name = ServerName::try_from(self.host.clone());
        let name = name.map_err(|_| TunnelError::Address(self.host.clone()))?;
        let wrapped = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        wrapped.map_err(|source| TunnelError::Dial { address: self.address(), source })
    }

    /// Returns the answer if it is a refusal.
    async fn ask_http(
        &self,
        stream: &mut Box<dyn Channel>,
        host: &str,
        port: u16,
    ) -> io::Result<Option<String>> {
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let mut head = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n");
        if let Some((name, password)) = &self.credentials {
            let encoded = BASE64.encode(format!("{name}:{password}"));
            head.push_str(&format!("Proxy-Authorization: Basic {encoded}\r\n"));
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes()).await?;
        stream.flush().await?;
        let mut answer = Vec::new();
        // Byte by byte: what follows the head belongs to the tunnel.
        while !answer.ends_with(b"\r\n\r\n") && answer.len() < LONGEST_ANSWER {
            answer.push(stream.read_u8().await?);
        }
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let line = answer.lines().next().unwrap_or_default();
        let agrees = line.split(' ').nth(1).is_some_and(|code| code.starts_with('2'));
        Ok((!agrees).then(|| line.to_owned()))
    }

    /// The dialogue of RFC 1928 and, with a password, RFC 1929. The proxy resolves names.
    async fn ask_socks(
        &self,
        stream: &mut Box<dyn Channel>,
        host: &str,
        port: u16,
    ) -> io::Result<Option<String>> {
        let method = if self.credentials.is_some() { 2 } else { 0 };
        stream.write_all(&[5, 1, method]).await?;
        stream.flush().await?;
        let mut chosen = [0; 2];
        stream.read_exact(&mut chosen).await?;
        if chosen != [5, method] {
            return Ok(Some(format!("no way to log in ({})", chosen[1])));
        }
        if let Some((name, password)) = &self.credentials {
            let mut login = vec![1];
            for text in [name, password] {
                push_short(&mut login, text)?;
            }
            stream.write_all(&login).await?;
            stream.flush().await?;
            stream.read_exact(&mut chosen).await?;
            if chosen[1] != 0 {
                return Ok(Some("wrong name or password".to_owned()));
            }
        }
        let mut request = vec![5, 1, 0, 3];
        push_short(&mut request, host)?;
        request.extend_from_slice(&port.to_be_bytes());
        stream.write_all(&request).await?;
        stream.flush().await?;
        let mut head = [0; 4];
        stream.read_exact(&mut head).await?;
        // The address it connects from is of no interest, but has to be read.
        let length = match head[3] {
            1 => 4,
            4 => 16,
            _ => usize::from(stream.read_u8().await?),
        };
        stream.read_exact(&mut vec![0; length + 2]).await?;
        Ok((head[1] != 0).then(|| format!("code {}", head[1])))
    }
}

fn push_short(to: &mut Vec<u8>, text: &str) -> io::Result<()> {
    to.push(u8::try_from(text.len()).map_err(io::Error::other)?);
    to.extend_from_slice(text.as_bytes());
    Ok(())
}

/// Replaces `%40` and the like; what is no escape stays.
fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        let escaped = (*first == b'%').then(|| more.get(..2)).flatten();
        let escaped = escaped.and_then(|digits| std::str::from_utf8(digits).ok());
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &more[2..];
            }
            None => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Opens the connections of a client through a proxy.
#[derive(Clone)]
pub(crate) struct Connector(pub(crate) Arc<Proxy>);

impl tower::Service<Uri> for Connector {
    type Response = Tunnelled;
    type Error = TunnelError;
    type Future = BoxFuture<'static, Result<Tunnelled, TunnelError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TunnelError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        let proxy = self.0.clone();
        Box::pin(async move {
            let refuse = || TunnelError::Address(target.to_string());
            let host = target.host().ok_or_else(refuse)?.trim_matches(['[', ']']);
            let usual = if target.scheme_str() == Some("http") { 80 } else { 443 };
            let channel = proxy.connect(host, target.port_u16().unwrap_or(usual)).await?;
            Ok(Tunnelled(TokioIo::new(channel)))
        })
    }
}

/// A connection through a proxy, as HTTP clients want it.
pub(crate) struct Tunnelled(TokioIo<Box<dyn Channel>>);

impl Connection for Tunnelled {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Tunnelled {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl Write for Tunnelled {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
