//! The watcher of kube-rs over HTTPS: what it lists, what it sees change, and that nothing is lost
//! when the server is killed and starts again.

use std::collections::BTreeMap;
use std::pin::pin;

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt as _};
use kube_runtime::watcher::{self, Event};
use kube_runtime::{WatchStreamExt as _, watcher as watch};

use crate::server::{PATIENCE, Server};

// Shows: WATCH-1
#[tokio::test]
async fn a_watcher_loses_nothing_when_the_server_is_killed() {
    follow_across_a_kill(watcher::Config::default()).await;
}

// Shows: WATCH-7
#[tokio::test]
async fn a_streaming_watcher_loses_nothing_when_the_server_is_killed() {
    follow_across_a_kill(watcher::Config::default().streaming_lists()).await;
}

async fn follow_across_a_kill(config: watcher::Config) {
    let mut server = Server::plane(&[]);
    let maps: Api<ConfigMap> = Api::namespaced(client(&server).await, "default");
    write(&maps, "early", "0").await;
    let mut events = pin!(watch(maps.clone(), config.labels("mine")).default_backoff());
    let mut seen = Seen::default();
    seen.until(&mut events, &[("early", "0")]).await;

    write(&maps, "late", "1").await;
    seen.until(&mut events, &[("early", "0"), ("late", "1")]).await;
    maps.patch("late", &PatchParams::default(), &Patch::Merge(&data("2"))).await.expect("patch");
    seen.until(&mut events, &[("early", "0"), ("late", "2")]).await;

    server.kill();
    server.start_again();
    let maps: Api<ConfigMap> = Api::namespaced(client(&server).await, "default");
    maps.delete("early", &DeleteParams::default()).await.expect("delete");
    write(&maps, "later", "3").await;
    seen.until(&mut events, &[("late", "2"), ("later", "3")]).await;
}

/// What a program that follows the events believes to exist.
#[derive(Default)]
struct Seen {
    objects: BTreeMap<String, String>,
    relisted: BTreeMap<String, String>,
}

impl Seen {
    async fn until(
        &mut self,
        events: &mut (impl Stream<Item = watcher::Result<Event<ConfigMap>>> + Unpin),
        expected: &[(&str, &str)],
    ) {
        let expected: BTreeMap<String, String> =
            expected.iter().map(|&(name, content)| (name.to_owned(), content.to_owned())).collect();
        let arrived = tokio::time::timeout(PATIENCE, async {
            while self.objects != expected {
                let event = events.next().await.expect("a watcher never ends");
                // While the server is away there are errors; the watcher goes on by itself.
                if let Ok(event) = event {
                    self.take(event);
                }
            }
        });
        assert!(arrived.await.is_ok(), "wanted {expected:?}, have {:?}", self.objects);
    }

    fn take(&mut self, event: Event<ConfigMap>) {
        let content = |map: &ConfigMap| {
            map.data.as_ref().and_then(|data| data.get("n")).cloned().unwrap_or_default()
        };
        match event {
            Event::Init => self.relisted.clear(),
            Event::InitApply(map) => {
                self.relisted.insert(map.name_any(), content(&map));
            }
            Event::InitDone => self.objects = std::mem::take(&mut self.relisted),
            Event::Apply(map) => {
                self.objects.insert(map.name_any(), content(&map));
            }
            Event::Delete(map) => {
                self.objects.remove(&map.name_any());
            }
        }
    }
}

async fn client(server: &Server) -> Client {
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).expect("read the kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("understand the kubeconfig")).expect("make a client")
}

async fn write(maps: &Api<ConfigMap>, name: &str, content: &str) {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some([("mine".to_owned(), String::new())].into()),
        ..ObjectMeta::default()
    };
    let map = ConfigMap { metadata, ..data(content) };
    maps.create(&PostParams::default(), &map).await.expect("create");
}

fn data(content: &str) -> ConfigMap {
    let data = Some([("n".to_owned(), content.to_owned())].into());
    ConfigMap { data, ..ConfigMap::default() }
}
