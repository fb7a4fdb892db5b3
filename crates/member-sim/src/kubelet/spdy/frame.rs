//! Frames of SPDY/3.1, as far as Kubernetes' clients use them. Windows are not kept: those clients
//! do not keep them either.

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::Error;

/// A frame longer than this is refused; clients cut what they send into far shorter ones.
const LONGEST: u32 = 1 << 20;
const FIN: u8 = 1;
const VERSION: u16 = 0x8003;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// The client opens a stream; the header block is still compressed.
    Open {
        stream: u32,
        ends: bool,
        block: Bytes,
    },
    Data {
        stream: u32,
        ends: bool,
        data: Bytes,
    },
    /// The client gives a stream up.
    Reset {
        stream: u32,
    },
    Ping {
        id: u32,
    },
    /// Of no concern here.
    Other,
}

/// Reads the next frame; nothing at the end of the connection.
pub(super) async fn read(from: &mut (impl AsyncRead + Unpin)) -> Result<Option<Frame>, Error> {
    let first = match from.read_u32().await {
        Ok(first) => first,
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let second = from.read_u32().await?;
    let (flags, length) = ((second >> 24) as u8, second & 0x00ff_ffff);
    if length > LONGEST {
        return Err(Error::TooLong(length));
    }
    let mut payload = vec![0; length as usize];
    from.read_exact(&mut payload).await?;
    let payload = Bytes::from(payload);
    let ends = flags & FIN != 0;
    if first >> 31 == 0 {
        return Ok(Some(Frame::Data { stream: first, ends, data: payload }));
    }
    if (first >> 16) as u16 != VERSION {
        return Err(Error::Version);
    }
    let number = || {
        let digits = payload.first_chunk::<4>().ok_or(Error::TooShort)?;
        Ok::<_, Error>(u32::from_be_bytes(*digits) & 0x7fff_ffff)
    };
    Ok(Some(match first & 0xffff {
        1 if payload.len() < 10 => return Err(Error::TooShort),
        1 => Frame::Open { stream: number()?, ends, block: payload.slice(10..) },
        3 => Frame::Reset { stream: number()? },
        6 => Frame::Ping { id: number()? },
        _ => Frame::Other,
    }))
}

fn control(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = VERSION.to_be_bytes().to_vec();
    frame.extend_from_slice(&kind.to_be_bytes());
    frame.extend_from_slice(&u32::try_from(payload.len()).unwrap_or_default().to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// Agrees to a stream.
pub(super) fn reply(stream: u32, block: &[u8]) -> Vec<u8> {
    control(2, &[&stream.to_be_bytes(), block].concat())
}

pub(super) fn ping(id: u32) -> Vec<u8> {
    control(6, &id.to_be_bytes())
}

/// `data` is shorter than the longest frame.
pub(super) fn data(stream: u32, data: &[u8], ends: bool) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap_or_default() & 0x00ff_ffff;
    let flags = u32::from(ends) << 24;
    let mut frame = stream.to_be_bytes().to_vec();
    frame.extend_from_slice(&(flags | length).to_be_bytes());
    frame.extend_from_slice(data);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_are_read_as_they_were_written() {
        let bytes = [ping(3), data(5, b"abc", true), control(9, &[0; 8])].concat();
        let mut from = bytes.as_slice();
        let mut found = Vec::new();
        while let Some(frame) = read(&mut from).await.unwrap() {
            found.push(frame);
        }
        let data = Frame::Data { stream: 5, ends: true, data: Bytes::from_static(b"abc") };
        assert_eq!(found, [Frame::Ping { id: 3 }, data, Frame::Other]);
    }

    #[tokio::test]
    async fn what_is_no_frame_is_refused() {
        let long = [0_u8, 0, 0, 1, 0, 0xff, 0xff, 0xff];
        assert!(matches!(read(&mut long.as_slice()).await, Err(Error::TooLong(_))));
        let text = b"GET / HTTP/1.1\r\n\r\n";
        assert!(read(&mut text.as_slice()).await.is_err());
        let old = [0x80_u8, 2, 0, 6, 0, 0, 0, 4, 0, 0, 0, 1];
        assert!(matches!(read(&mut old.as_slice()).await, Err(Error::Version)));
    }
}
