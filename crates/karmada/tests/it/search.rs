//! `search.karmada.io` as users meet it: what registries name is found in all members at once, and
//! kubectl takes the proxy for one large cluster.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use karmada_apimachinery::Value;

use crate::reach_through::{Following, in_member};
use crate::server::{Server, eventually, text};

const GROUP: &str = "/apis/search.karmada.io/v1alpha1";

const REGISTRY: &str = r#"
apiVersion: search.karmada.io/v1alpha1
kind: ResourceRegistry
metadata: {name: everything}
spec:
  targetCluster: {}
  resourceSelectors:
  - {apiVersion: v1, kind: Pod}
  - {apiVersion: v1, kind: Node}
"#;

/// The control plane as kubectl sees it, directly or as one large cluster.
struct Plane<'a>(&'a Server);

impl Plane<'_> {
    fn command(&self, line: &str) -> Command {
        self.kubectl(&[], line)
    }

    fn through(&self, line: &str) -> Command {
        let address = format!("https://{}{GROUP}/proxying/karmada/proxy", self.0.address());
        let cache = self.0.scratch().join("search-cache");
        self.kubectl(&["--server", &address, "--cache-dir", &cache.to_string_lossy()], line)
    }

    fn kubectl(&self, flags: &[&str], line: &str) -> Command {
        let mut command = Command::new("kubectl");
        command
            .arg("--kubeconfig")
            .arg(self.0.kubeconfig())
            .args(flags)
            .args(line.split(' ').map(|word| word.replace('~', " ")))
            .stdin(Stdio::null());
        command
    }

    fn raw(&self, path: &str) -> Output {
        self.command(&format!("get --raw {GROUP}{path}")).output().expect("run kubectl")
    }

    fn json(&self, path: &str) -> Value {
        let output = self.raw(path);
        assert!(output.status.success(), "{path}: {}", text(&output));
        serde_json::from_slice(&output.stdout).expect("read the answer")
    }
}

fn run(mut command: Command) -> Output {
    command.output().expect("run kubectl")
}

fn ok(command: Command) -> String {
    let shown = format!("{command:?}");
    let output = run(command);
    assert!(output.status.success(), "{shown}: {}", text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn feed(mut command: Command, input: &str) -> String {
    let mut process = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("run kubectl");
    process.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    text(&output)
}

/// `cluster/name` of every item.
fn places(list: &Value) -> Vec<String> {
    let place = |item: &Value| {
        let metadata = &item["metadata"];
        let cluster = metadata["annotations"]["resource.karmada.io/cached-from-cluster"].as_str();
        format!("{}/{}", cluster.unwrap_or("?"), metadata["name"].as_str().unwrap_or("?"))
    };
    list["items"].as_array().map(|items| items.iter().map(place).collect()).unwrap_or_default()
}

// Shows: AGG-5
#[test]
fn members_are_searched_as_one_large_cluster() {
    if Command::new("kubectl").args(["version", "--client"]).output().is_err() {
        eprintln!("SKIPPED: there is no kubectl");
        return;
    }
    let server = Server::up_with(&["--members", "2", "--member-nodes", "1"]);
    let plane = Plane(&server);
    nothing_is_kept_before_it_is_asked_for(&plane);
    feed(plane.command("apply -f -"), REGISTRY);
    for member in ["member1", "member2"] {
        let made = in_member(&server, member, "run same --image=nginx --labels=app=same");
        assert!(made.status.success(), "{}", text(&made));
    }
    let made = in_member(&server, "member1", "run web --image=nginx");
    assert!(made.status.success(), "{}", text(&made));
    lists_span_the_members(&plane);
    kubectl_reads_what_members_have(&plane);
    changes_are_told_as_they_happen(&plane);
    writes_go_to_the_member_that_has_the_object(&plane);
    callers_need_the_right_and_write_as_themselves(&plane);
    what_no_registry_names_is_the_control_planes(&plane);
}

fn nothing_is_kept_before_it_is_asked_for(plane: &Plane<'_>) {
    let resources = plane.json("")["resources"].clone();
    let offered = |name: &str| {
        let found = resources.as_array().unwrap().iter().find(|own| own["name"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {resources}"))["verbs"].to_string()
    };
    assert_eq!(offered("search"), r#"["get"]"#);
    assert_eq!(offered("proxying"), "[]");
    assert_eq!(offered("proxying/proxy"), r#"["create","delete","get","patch","update"]"#);

    let none = plane.json("/search/cache/api/v1/pods");
    assert_eq!(
        none.to_string(),
        r#"{"apiVersion":"v1","items":[],"kind":"PodList","metadata":{}}"#
    );
    // kubectl tells of answers that are no Status only when it is asked to.
    let refused = |path: &str, why: &str| {
        let output = text(&run(plane.command(&format!("get --raw {GROUP}{path} -v=8"))));
        assert!(output.contains(why), "{path}: {output}");
    };
    refused("/search/cache/apis/none.io/v1/things", "no matches for none.io/v1, Resource=things");
    refused("/search/cache/api/v1/namespaces/a/pods/b/log", "leads below an object");
    refused("/search/cache/version", "is not a resource request");
    refused("/search/lucene/api/v1/pods", "unrecognized search category lucene");
    assert!(plane.raw("/search/opensearch/api/v1/pods").stdout.is_empty());
}

fn lists_span_the_members(plane: &Plane<'_>) {
    let cached = |path: &str| places(&plane.json(&format!("/search/cache/{path}")));
    let everywhere = ["member1/member1-node-1", "member2/member2-node-1"];
    eventually("both members are searched", || {
        (cached("api/v1/nodes") == everywhere).then_some(())
    });
    let same = ["member1/same", "member2/same"];
    let labelled = "api/v1/namespaces/default/pods?labelSelector=app%3Dsame";
    eventually("both pods are found", || (cached(labelled) == same).then_some(()));
    assert_eq!(cached("api/v1/namespaces/default/pods/same"), same);
    assert_eq!(cached("api/v1/namespaces/elsewhere/pods"), [""; 0]);

    let proxied = |path: &str| plane.json(&format!("/proxying/karmada/proxy/{path}"));
    let page = proxied("api/v1/nodes?limit=1");
    assert_eq!(places(&page), everywhere[..1]);
    let token = page["metadata"]["continue"].as_str().unwrap();
    let rest = proxied(&format!("api/v1/nodes?limit=1&continue={token}"));
    assert_eq!(places(&rest), everywhere[1..]);
    assert_eq!(rest["metadata"].get("continue"), None, "{rest}");
    // A list is of one version in each member.
    assert!(page["metadata"]["resourceVersion"].as_str().unwrap().starts_with("eyJtZW1iZXIxIjoi"));
    assert_eq!(page["metadata"]["resourceVersion"], rest["metadata"]["resourceVersion"]);
}

fn kubectl_reads_what_members_have(plane: &Plane<'_>) {
    eventually("the pod is seen running", || {
        let table = ok(plane.through("get pods -o wide"));
        let running = table.matches("Running").count() == 3;
        (running && table.starts_with("NAME   READY   STATUS")).then_some(())
    });
    let source = r"{.metadata.annotations.resource\.karmada\.io/cached-from-cluster}";
    assert_eq!(ok(plane.through(&format!("get pod web -o jsonpath={source}"))), "member1");
    let twice = text(&run(plane.through("get pod same")));
    assert!(twice.contains("ambiguous objects in clusters [member1, member2]"), "{twice}");
    let none = text(&run(plane.through("get pod nobody")));
    assert!(none.contains(r#"pods "nobody" not found"#), "{none}");
    let on_node = "get pods -A --field-selector spec.nodeName=member2-node-1 -o name";
    assert_eq!(ok(plane.through(on_node)), "pod/same\n");
    assert!(ok(plane.through("describe node member1-node-1")).contains("web"));
}

fn changes_are_told_as_they_happen(plane: &Plane<'_>) {
    let watch = Following::start(plane.through("get pods --watch --output-watch-events"));
    watch.until("web");
    let made = in_member(plane.0, "member2", "run late --image=nginx");
    assert!(made.status.success(), "{}", text(&made));
    watch.until("late");
    let gone = in_member(plane.0, "member2", "delete pod late --grace-period=1");
    assert!(gone.status.success(), "{}", text(&gone));
    watch.until("DELETED");

    // Whoever comes back with the version of a list hears what happened since, and nothing else.
    let pods = "/proxying/karmada/proxy/api/v1/namespaces/default/pods";
    let version = plane.json(pods)["metadata"]["resourceVersion"].clone();
    let version = version.as_str().unwrap();
    let labelled = in_member(plane.0, "member1", "label pod web since=then");
    assert!(labelled.status.success(), "{}", text(&labelled));
    eventually("the change is told behind the version", || {
        let events =
            plane.raw(&format!("{pods}?watch=true&timeoutSeconds=1&resourceVersion={version}"));
        let events = text(&events);
        assert!(!events.contains(r#""name":"same""#), "{events}");
        (events.contains("MODIFIED") && events.contains(r#""since":"then""#)).then_some(())
    });
    let old = plane.raw(&format!("{pods}?watch=true&resourceVersion=eyJnb25lIjoiMSJ9"));
    assert!(text(&old).contains("too old resource version"), "{}", text(&old));
}

fn writes_go_to_the_member_that_has_the_object(plane: &Plane<'_>) {
    let in_first = |line: &str| text(&in_member(plane.0, "member1", line));
    ok(plane.through("label pod web patched=yes"));
    assert_eq!(in_first("get pod web -o jsonpath={.metadata.labels.patched}"), "yes");
    // What was read through the proxy can be put back, whatever the proxy wrote into it.
    eventually("the pod is replaced", || {
        let pod = ok(plane.through("get pod web -o json"));
        let mut pod: Value = serde_json::from_str(&pod).unwrap();
        pod["metadata"]["labels"]["replaced"] = "yes".into();
        let mut command = plane.through("replace -f -");
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        process.stdin.take().unwrap().write_all(pod.to_string().as_bytes()).unwrap();
        let output = process.wait_with_output().unwrap();
        // The cache may be a moment behind the pod.
        let behind = text(&output).contains("the object has been modified");
        assert!(output.status.success() || behind, "{}", text(&output));
        output.status.success().then_some(())
    });
    assert_eq!(in_first("get pod web -o jsonpath={.metadata.labels.replaced}"), "yes");
    assert_eq!(in_first("get pod web -o jsonpath={.metadata.annotations}"), "");
    assert!(!ok(plane.through("logs web --tail=1")).is_empty());
    assert_eq!(ok(plane.through("exec web -- echo hello")), "hello\n");
    let created = text(&run(plane.through("run new --image=nginx")));
    assert!(
        created.contains(r#"create is not supported on resources of kind "pods""#),
        "{created}"
    );
    let twice = text(&run(plane.through("delete pod same")));
    assert!(twice.contains("ambiguous objects in clusters"), "{twice}");
}

fn callers_need_the_right_and_write_as_themselves(plane: &Plane<'_>) {
    let refused = text(&run(plane.through("--as carol get pods")));
    assert!(refused.contains("cannot get resource \"proxying/proxy\""), "{refused}");
    let searched = text(&run(
        plane.command(&format!("--as carol get --raw {GROUP}/search/cache/api/v1/pods"))
    ));
    assert!(searched.contains("cannot get resource \"search/api\""), "{searched}");
    ok(plane.command(
        "create clusterrole through --verb=* --resource=proxying.search.karmada.io/proxy",
    ));
    ok(plane.command("create clusterrolebinding through --clusterrole=through --user=carol"));
    eventually("carol may read", || {
        let output = text(&run(plane.through("--as carol get pods -o name")));
        output.contains("pod/web").then_some(())
    });
    eventually("the member refuses what it does not allow carol", || {
        let output = text(&run(plane.through("--as carol delete pod web")));
        output.contains("User \"carol\" cannot delete resource \"pods\"").then_some(())
    });
    let secrets = text(&run(plane.through("--as carol get secrets")));
    assert!(secrets.contains("User \"carol\" cannot list resource \"secrets\""), "{secrets}");
}

fn what_no_registry_names_is_the_control_planes(plane: &Plane<'_>) {
    ok(plane.through("create configmap own --from-literal=a=b"));
    assert_eq!(ok(plane.command("get configmap own -o name")), "configmap/own\n");
    assert!(ok(plane.through("get clusters")).contains("member2"));
    let itself = plane.raw(&format!("/proxying/a/proxy{GROUP}/proxying/b/proxy/version"));
    assert!(text(&itself).contains("leads to itself"), "{}", text(&itself));
    // A registry that names one member leaves the other out; without one nothing is left.
    let one = r#"{"spec":{"targetCluster":{"clusterNames":["member2"]}}}"#;
    ok(plane.command(&format!("patch resourceregistry everything --type=merge -p {one}")));
    eventually("only the second is searched", || {
        let found = places(&plane.json("/search/cache/api/v1/nodes"));
        (found == ["member2/member2-node-1"]).then_some(())
    });
    ok(plane.command("delete resourceregistry everything"));
    eventually("the proxy leads to the control plane", || {
        let output = text(&run(plane.through("get nodes")));
        output.contains("No resources found").then_some(())
    });
}
