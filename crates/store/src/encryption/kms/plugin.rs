//! Calls of the key service that runs beside the server, as version 2 of Kubernetes' KMS API defines
//! them. What failed is told in one line, without the address: whoever passes it on knows that.

use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

use super::object::{Annotations, Source, SourceKind, read_annotation, write_annotations};
use crate::grpc::wire::{Content, Malformed, Writer, read};
use crate::grpc::{Channel, Endpoint};

const STATUS: &str = "/v2.KeyManagementService/Status";
const ENCRYPT: &str = "/v2.KeyManagementService/Encrypt";
const DECRYPT: &str = "/v2.KeyManagementService/Decrypt";

/// The way to one plugin.
#[derive(Debug)]
pub(super) struct Plugin {
    channel: Channel,
    pub(super) endpoint: Endpoint,
    timeout: Duration,
}

/// What a plugin says of itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) version: String,
    pub(super) healthz: String,
    pub(super) key_id: String,
}

impl Plugin {
    pub(super) fn new(endpoint: Endpoint, timeout: Duration) -> Self {
        Self { channel: Channel::new(vec![endpoint.clone()], None), endpoint, timeout }
    }

    pub(super) async fn status(&self) -> Result<Status, String> {
        let mut status = Status::default();
        self.call(STATUS, Writer::default(), |field, content| {
            let text = || String::from_utf8_lossy(&content.bytes()).into_owned();
            match field {
                1 => status.version = text(),
                2 => status.healthz = text(),
                3 => status.key_id = text(),
                _ => {}
            }
            Ok(())
        })
        .await?;
        Ok(status)
    }

    /// Has a seed encrypted.
    pub(super) async fn encrypt(&self, seed: &[u8]) -> Result<Source, String> {
        let mut source = Source {
            kind: SourceKind::Seed,
            key_id: String::new(),
            encrypted: Bytes::new(),
            annotations: Annotations::new(),
        };
        // The name of the request is for the plugin's log.
        let uid = Uuid::new_v4().to_string();
        let request = Writer::default().bytes(1, seed).bytes(2, uid.as_bytes());
        self.call(ENCRYPT, request, |field, content| {
            match field {
                1 => source.encrypted = content.bytes(),
                2 => source.key_id = String::from_utf8_lossy(&content.bytes()).into(),
                3 => read_annotation(content.bytes(), &mut source.annotations)?,
                _ => {}
            }
            Ok(())
        })
        .await?;
        source.check()?;
        Ok(source)
    }

    /// Has a key or seed decrypted.
    pub(super) async fn decrypt(&self, source: &Source) -> Result<Vec<u8>, String> {
        let mut secret = Vec::new();
        let uid = Uuid::new_v4().to_string();
        let request = Writer::default()
            .bytes(1, &source.encrypted)
            .bytes(2, uid.as_bytes())
            .bytes(3, source.key_id.as_bytes());
        let request = write_annotations(request, 4, &source.annotations);
        self.call(DECRYPT, request, |field, content| {
            if field == 1 {
                secret = content.bytes().to_vec();
            }
            Ok(())
        })
        .await?;
        Ok(secret)
    }

    async fn call(
        &self,
        path: &'static str,
        request: Writer,
        take: impl FnMut(u64, Content) -> Result<(), Malformed>,
    ) -> Result<(), String> {
        let calling = self.channel.call(path, request.finish(), self.timeout);
        // Finding the plugin counts too.
        let answered = tokio::time::timeout(self.timeout, calling).await;
        let answer = answered.map_err(|_| format!("no answer within {:?}", self.timeout))?;
        let answer = answer.map_err(|failure| {
            let text = failure.to_string();
            let address = format!("{}: ", self.endpoint);
            text.strip_prefix(&address).map(str::to_owned).unwrap_or(text)
        })?;
        read(answer, take).map_err(|malformed| malformed.to_string())
    }
}
