//! Proxies of a few lines each, and what reaches them.

use super::*;
use tokio::net::TcpListener;

fn proxy(url: &str, headers: &[(&str, &str)]) -> Result<Proxy, TunnelError> {
    let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Proxy::new(url, &headers.iter().map(pair).collect())
}

/// Answers one connection with the given pieces, after reading as many bytes as each waits for;
/// returns what it read.
async fn answer_one(listener: TcpListener, dialogue: Vec<(usize, &'static [u8])>) -> Vec<Vec<u8>> {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut heard = Vec::new();
    for (length, reply) in dialogue {
        let mut piece = vec![0; length];
        stream.read_exact(&mut piece).await.unwrap();
        heard.push(piece);
        stream.write_all(reply).await.unwrap();
    }
    heard
}

async fn through(
    scheme: &str,
    userinfo: &str,
    dialogue: Vec<(usize, &'static [u8])>,
) -> (Vec<Vec<u8>>, Result<String, String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("{scheme}://{userinfo}{}", listener.local_addr().unwrap());
    let proxy = proxy(&url, &[("X-Way", "a, b")]).unwrap();
    let said = async {
        let mut stream = proxy.connect("member.example", 6443).await.map_err(|e| e.to_string())?;
        let mut greeting = [0; 5];
        stream.read_exact(&mut greeting).await.map_err(|e| e.to_string())?;
        Ok(String::from_utf8_lossy(&greeting).into_owned())
    };
    tokio::join!(answer_one(listener, dialogue), said)
}

#[tokio::test]
async fn http_proxies_get_credentials_and_the_headers_of_the_cluster() {
    let head = "CONNECT member.example:6443 HTTP/1.1\r\nHost: member.example:6443\r\n\
                Proxy-Authorization: Basic YWRhOnBAc3M=\r\nX-Way: a\r\nX-Way: b\r\n\r\n";
    let dialogue: Vec<(usize, &[u8])> =
        vec![(head.len(), b"HTTP/1.1 200 Connection established\r\nVia: p\r\n\r\nhello")];
    let (heard, said) = through("http", "ada:p%40ss@", dialogue).await;
    assert_eq!(String::from_utf8_lossy(&heard[0]), head);
    assert_eq!(said.as_deref(), Ok("hello"));
}

#[tokio::test]
async fn a_refused_tunnel_is_told_in_the_words_of_the_proxy() {
    let head = "CONNECT member.example:6443 HTTP/1.1\r\nHost: member.example:6443\r\n\
                X-Way: a\r\nX-Way: b\r\n\r\n";
    let dialogue: Vec<(usize, &[u8])> = vec![(head.len(), b"HTTP/1.1 403 Forbidden\r\n\r\n")];
    let (_, said) = through("http", "", dialogue).await;
    let said = said.unwrap_err();
    assert!(said.ends_with("refused the tunnel: HTTP/1.1 403 Forbidden"), "{said}");
}

#[tokio::test]
async fn socks_proxies_resolve_the_name_and_may_want_a_password() {
    let granted: &[u8] = b"\x05\x00\x00\x01\x7f\x00\x00\x01\x04\x38hello";
    let target = b"\x05\x01\x00\x03\x0emember.example\x19\x2b";
    let open: Vec<(usize, &[u8])> = vec![(3, b"\x05\x00"), (target.len(), granted)];
    let (heard, said) = through("socks5", "", open).await;
    assert_eq!((heard[1].as_slice(), said.as_deref()), (target.as_slice(), Ok("hello")));
    let login: Vec<(usize, &[u8])> =
        vec![(3, b"\x05\x02"), (7, b"\x01\x00"), (target.len(), granted)];
    let (heard, said) = through("socks5", "ada:x@", login).await;
    assert_eq!(heard[1], b"\x01\x03ada\x01x");
    assert_eq!(said.as_deref(), Ok("hello"));
    let refused: Vec<(usize, &[u8])> =
        vec![(3, b"\x05\x00"), (target.len(), b"\x05\x05\x00\x01\x00\x00\x00\x00\x00\x00")];
    let (_, said) = through("socks5", "", refused).await;
    assert!(said.unwrap_err().ends_with("refused the tunnel: code 5"));
}

#[test]
fn addresses_that_are_none_are_refused() {
    for (url, expected) in [
        ("ftp://a:1", "proxies over ftp are not supported"),
        ("nowhere", "proxies over  are not supported"),
    ] {
        assert_eq!(proxy(url, &[]).unwrap_err().to_string(), expected);
    }
    assert_eq!(proxy("socks5://[::1]", &[]).unwrap().address(), "::1:1080");
}
