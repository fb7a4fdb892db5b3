//! helm, of both generations: a chart with a hook, a definition and a policy, through its whole life.

use std::process::Command;

use crate::environment::{confine, has_kubectl};
use crate::server::{Server, eventually, text};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/charts/shop");

/// The helms that `./test` found.
fn helms() -> Vec<String> {
    let named = std::env::var("KARMADA_TEST_HELMS").unwrap_or_default();
    named.split(':').filter(|program| !program.is_empty()).map(str::to_owned).collect()
}

struct Shop<'a> {
    server: &'a Server,
}

impl Shop<'_> {
    fn run(&self, program: &str, line: &str) -> String {
        let mut command = Command::new(program);
        let output = confine(&mut command, &self.server.scratch().join("home"))
            .env("KUBECONFIG", self.server.kubeconfig())
            .args(line.split(' '))
            .output()
            .expect("run a client");
        assert!(output.status.success(), "{program} {line}:\n{}", text(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn kubectl(&self, line: &str) -> String {
        self.run("kubectl", line)
    }

    /// Waits until so many replicas are wanted and ready, summed up over the members. `helm --wait` cannot:
    /// it looks for conditions and ReplicaSets, which a template does not have.
    fn until_ready(&self, replicas: &str) {
        let wanted = format!("{replicas}/{replicas}");
        eventually("the members report their replicas", || {
            let told = "get deployment shop -o jsonpath={.spec.replicas}/{.status.readyReplicas}";
            (self.kubectl(told) == wanted).then_some(())
        });
    }
}

// Shows: MISC-3
#[test]
fn helm_installs_upgrades_rolls_back_and_uninstalls_a_chart_with_hook_definition_and_policy() {
    let helms = helms();
    if helms.is_empty() || !has_kubectl() {
        eprintln!("SKIPPED: name helm programs in KARMADA_TEST_HELMS, separated by ':'");
        return;
    }
    let server = Server::up_with(&["--members", "2", "--member-nodes", "1"]);
    let shop = Shop { server: &server };
    for helm in helms {
        shop.run(&helm, &format!("install shop {CHART}"));
        shop.until_ready("2");
        assert_eq!(shop.kubectl("get cart shop -o jsonpath={.spec.size}"), "2");
        let hook = "get configmap shop-hook -o jsonpath={.data.revision}";
        assert_eq!(shop.kubectl(hook), "1");

        shop.run(&helm, &format!("upgrade shop {CHART} --set replicas=4"));
        shop.until_ready("4");
        assert_eq!(shop.kubectl(hook), "2");

        shop.run(&helm, "rollback shop 1");
        shop.until_ready("2");
        let history = shop.run(&helm, "history shop -o json");
        let history: karmada_apimachinery::Value =
            serde_json::from_str(&history).expect("read the history");
        let told: Vec<&str> = history
            .as_array()
            .expect("a list")
            .iter()
            .map(|revision| revision["status"].as_str().unwrap_or_default())
            .collect();
        assert_eq!(told, ["superseded", "superseded", "deployed"], "{helm}");

        shop.run(&helm, "uninstall shop --wait");
        eventually("nothing of the release is left", || {
            let left = shop
                .kubectl("get deployment,service,cart,propagationpolicy,resourcebinding -o name");
            // The control plane's own Service is nobody's release.
            (left.trim() == "service/kubernetes").then_some(())
        });
        // Hooks and definitions stay, as helm has it.
        shop.kubectl("delete configmap shop-hook");
        shop.kubectl("get crd carts.shop.example.com -o name");
    }
}
