//! What kubectl prints and what we print about the same objects of the same server, letter by letter. Needs a kubectl
//! of the version whose words we use; another one words things otherwise.

use regex::Regex;

use super::shell::{Space, Terminal as _};
use crate::server::PATIENCE;

/// The kubectl to compare with.
const VERSION: &str = "v1.36.";

/// Everything that is described otherwise than as a dump of its fields.
const OBJECTS: &str = include_str!("beside_kubectl.yaml");

/// A kubectl of the right version among those the tests know.
fn kubectl() -> Option<String> {
    let known = std::env::var("KARMADA_TEST_KUBECTLS").unwrap_or_default();
    let home = std::env::var("HOME").unwrap_or_default();
    let usual = format!("kubectl:{home}/.cache/testbed/bin/kubectl");
    let found = known.split(':').chain(usual.split(':')).filter(|program| !program.is_empty());
    let is_right = |program: &&str| {
        let output = std::process::Command::new(program).args(["version", "--client"]).output();
        output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(VERSION))
    };
    let found = found.into_iter().find(is_right).map(str::to_owned);
    if found.is_none() {
        eprintln!("SKIPPED beside kubectl: there is no kubectl {VERSION}x here");
    }
    found
}

/// Moments and ages go on while both programs are run.
fn still(text: &str) -> String {
    let moment =
        Regex::new(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d \+0000").unwrap();
    let age = Regex::new(r"\b(\d+[dhms])+\b").unwrap();
    let text = moment.replace_all(text, "MOMENT");
    age.replace_all(&text, "AGE").into_owned()
}

/// A line of ours that stands for a decision, and what became of it in kubectl's text.
fn decided(text: &str, object: &str) -> String {
    match object {
        // Tokens are counted, not shown.
        "secret/token" => {
            let token = Regex::new(r"(?m)^token:( +).*$").unwrap();
            token.replace_all(text, "token:$1SECRET").into_owned()
        }
        _ => text.to_owned(),
    }
}

/// Asks both programs until they say the same: others may write between the two.
fn agree(space: &Space, what: &str, ask: impl Fn() -> (String, String)) {
    let began = std::time::Instant::now();
    loop {
        let (ours, theirs) = ask();
        if ours == theirs {
            return;
        }
        let is_over = began.elapsed() > PATIENCE;
        assert!(!is_over, "{what} in {}:\n{ours}\n--- kubectl\n{theirs}", space.name());
    }
}

#[test]
fn objects_are_described_as_kubectl_describes_them() {
    let Some(kubectl) = kubectl() else { return };
    let Some(space) = Space::new("beside") else { return };
    space.write("objects.yaml", OBJECTS);
    space.ok("kubectl apply -f objects.yaml");
    space.write(
        "status.json",
        r#"{"status": {"currentReplicas": 1, "desiredReplicas": 2, "conditions": [
            {"type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale", "message": "it can", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}"#,
    );
    space.ok(&format!(
        "{kubectl} patch hpa web --subresource status --type merge --patch-file status.json"
    ));
    let named = space.ok("kubectl get -f objects.yaml -o name");
    let more = "namespace/beside cluster/member1 apiservice/v1.apps crd/works.work.karmada.io \
        clusterrole/view clusterrole/cluster-admin clusterrolebinding/cluster-admin";
    let mut compared = 0;
    for object in named.split_whitespace().chain(more.split_whitespace()) {
        let line = format!("describe {object} --show-events=false");
        agree(&space, object, || {
            let theirs = space.ok(&format!("{kubectl} {line}"));
            let ours = space.ok(&format!("karmadactl {line}"));
            (decided(&ours, object), decided(&theirs, object))
        });
        compared += 1;
    }
    assert!(compared >= 40, "only {compared}");
    // Events stand below, with the same columns.
    for object in ["deployment.apps/web", "networkpolicy/web", "role/reader", "quota/small"] {
        agree(&space, object, || {
            let theirs = space.ok(&format!("{kubectl} describe {object}"));
            let ours = space.ok(&format!("karmadactl describe {object}"));
            (still(&ours), still(&theirs))
        });
    }
    for object in
        ["pv/disk", "storageclass/fast", "priorityclass/beside-first", "ingressclass/edge"]
    {
        space.ok(&format!("kubectl delete {object}"));
    }
    space.ok("kubectl delete clusterrole beside-reader");
}

/// What is rare: every kind of volume, every field of a container, states that pods and claims may be in.
const MORE: &str = include_str!("beside_kubectl_more.yaml");

/// A state for some of them.
const STATES: &[(&str, &str)] = &[
    (
        "pod/rich",
        r#"{"phase": "Pending", "reason": "Waits", "message": "for others", "hostIP": "10.0.0.1", "podIP": "10.1.0.1",
            "podIPs": [{"ip": "10.1.0.1"}, {"ip": "2001:db8::1"}], "startTime": "2026-01-01T00:00:00Z",
            "qosClass": "Burstable",
            "conditions": [{"type": "example.com/checked", "status": "True"}, {"type": "Ready", "status": "False"}],
            "initContainerStatuses": [{"name": "first", "image": "busybox", "imageID": "i", "ready": true, "restartCount": 1,
                "state": {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:01Z"}}}],
            "containerStatuses": [
                {"name": "main", "image": "nginx", "imageID": "i", "containerID": "c://1", "ready": true, "restartCount": 3,
                    "state": {"running": {"startedAt": "2026-01-01T00:00:02Z"}},
                    "lastState": {"terminated": {"exitCode": 137, "signal": 9, "reason": "OOMKilled", "message": "too much",
                        "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:01Z"}}},
                {"name": "waits", "image": "busybox", "imageID": "", "ready": false, "restartCount": 0,
                    "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not there"}}},
                {"name": "ended", "image": "busybox", "imageID": "i", "ready": false, "restartCount": 0,
                    "state": {"terminated": {"exitCode": 2}}}]}"#,
    ),
    (
        "node/beside-node",
        r#"{"capacity": {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "1Gi", "pods": "10"}}"#,
    ),
    (
        "pvc/snapped",
        r#"{"phase": "Bound", "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"], "conditions": [
            {"type": "Resizing", "status": "True", "reason": "Grows", "message": "soon", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}"#,
    ),
    ("job/indexed", r#"{"active": 1, "ready": 1, "succeeded": 2, "completedIndexes": "0,2"}"#),
    (
        "service/balanced",
        r#"{"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}, {"hostname": "lb.example.com"}]}}"#,
    ),
];

#[test]
fn rare_objects_are_described_as_kubectl_describes_them() {
    let Some(kubectl) = kubectl() else { return };
    let Some(space) = Space::new("beside-more") else { return };
    space.write("more.yaml", MORE);
    space.ok("kubectl apply -f more.yaml");
    for (object, status) in STATES {
        space.write("status.json", &format!("{{\"status\": {status}}}"));
        space.ok(&format!(
            "{kubectl} patch {object} --subresource status --type merge --patch-file status.json"
        ));
    }
    space.ok("kubectl certificate approve beside-request");
    // One text of many objects, as one run of each program says it.
    for what in ["-f more.yaml", "ipaddress", "namespace beside-more"] {
        let line = format!("describe {what} --show-events=false");
        let theirs = still(&space.ok(&format!("{kubectl} {line}")));
        let ours = still(&space.ok(&format!("karmadactl {line}")));
        let (ours, theirs): (Vec<&str>, Vec<&str>) =
            (ours.lines().collect(), theirs.lines().collect());
        let differs = ours.iter().zip(&theirs).position(|(ours, theirs)| ours != theirs);
        let differs =
            differs.or((ours.len() != theirs.len()).then(|| ours.len().min(theirs.len())));
        if let Some(line) = differs {
            let near =
                |text: &[&str]| text[line.saturating_sub(12)..text.len().min(line + 6)].join("\n");
            panic!("{what}, line {line}: ours\n{}\nkubectl's\n{}", near(&ours), near(&theirs));
        }
    }
    space.ok("kubectl delete -f more.yaml --wait=false --force --grace-period=0");
}

/// The same in a member, where things run.
#[test]
fn objects_of_members_are_described_as_kubectl_describes_them() {
    let Some(kubectl) = kubectl() else { return };
    let Some(space) = Space::new("beside-member") else { return };
    let direct = "--kubeconfig $MEMBERS/member2.config";
    space.until(&format!("kubectl {direct} get ns beside-member -o name"), |out| !out.is_empty());
    space.write("app.yaml", WORKLOADS);
    space.ok(&format!("kubectl {direct} apply -f app.yaml"));
    space.until(&format!("kubectl {direct} get pods --no-headers"), |out| {
        out.lines().count() == 3 && out.matches("Running").count() == 3
    });
    space.until(&format!("kubectl {direct} get endpointslices -o jsonpath='{{.items[*].endpoints[*].conditions.ready}}'"), |out| out == "true true");
    let named = space
        .ok(&format!("kubectl {direct} get deploy,rs,rc,pods,svc,endpointslices,ingress -o name"));
    for object in named.split_whitespace().chain(["node/member2-node-1"]) {
        let line = format!("describe {object} --show-events=false");
        agree(&space, object, || {
            let theirs = space.ok(&format!("{kubectl} {direct} {line}"));
            let ours = space.ok(&format!("karmadactl {line} -s members -C member2"));
            (still(&ours), still(&theirs))
        });
    }
}

const WORKLOADS: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {note: kept}}
    spec:
      initContainers: [{name: first, image: busybox, command: [sh, -c, 'true']}]
      containers:
      - name: web
        image: nginx
        ports: [{containerPort: 80, name: http}]
        resources: {requests: {cpu: 10m, memory: 8Mi}, limits: {memory: 16Mi}}
        env: [{name: A, value: b}, {name: ME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
---
apiVersion: v1
kind: ReplicationController
metadata: {name: old}
spec:
  replicas: 1
  selector: {app: old}
  template:
    metadata: {labels: {app: old}}
    spec: {containers: [{name: old, image: nginx}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: http}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec:
  rules:
  - host: shop.example.com
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {name: http}}}}]}
";

/// Lists of the original have an empty `selfLink`, those of kubectl no longer.
fn without_self_link(text: &str) -> String {
    let link = Regex::new(r#",?\n\s*"?selfLink"?: ""(,\n\s*\})?"#).unwrap();
    // In kyaml a comma ends the entry before, too.
    link.replace_all(text, |found: &regex::Captures<'_>| {
        found.get(1).map_or_else(String::new, |rest| rest.as_str().to_owned())
    })
    .into_owned()
}

/// For programs, both print the same; for people we add two columns.
#[test]
fn objects_are_printed_as_kubectl_prints_them() {
    let Some(kubectl) = kubectl() else { return };
    let Some(space) = Space::new("beside-get") else { return };
    for name in ["one", "two"] {
        space.ok(&format!(
            "kubectl create configmap {name} --from-literal=a=b --from-literal=c='d: \"e\"'"
        ));
        space.ok(&format!("kubectl label configmap {name} name={name}"));
    }
    space.ok("kubectl create deployment web --image nginx --replicas 2");
    space.write("columns.txt", "NAME            LABEL\n.metadata.name  .metadata.labels.name\n");
    space.write("path.txt", "{.items[*].metadata.name}");
    space.write("template.txt", "{{range .items}}{{.metadata.name}} {{end}}");
    for subject in ["cm -l name", "cm one", "deploy web", "cm,deploy", "pp", "cm/one cm/two"] {
        for format in FORMATS {
            // A path into a list says nothing about one object, and the other way round.
            let is_list = !["cm one", "deploy web"].contains(&subject);
            if !is_list && format.contains("items") {
                continue;
            }
            let line = format!("get {subject} {format}");
            let (theirs, ours) = (
                space.run(&format!("{kubectl} {line}")),
                space.run(&format!("karmadactl {}", line.replace("-l name", "--labels name"))),
            );
            let out = without_self_link(&ours.out);
            assert_eq!((out, ours.code), (theirs.out, theirs.code), "{line}: {}", ours.err);
        }
    }
    for (line, columns) in [
        ("get cm -o wide --sort-by=.metadata.name", 3),
        ("get deploy -o wide", 8),
        ("get cm one --show-labels", 4),
        ("get cm -L name --no-headers", 4),
        ("get clusters -o wide", 10),
        ("get cm,deploy --show-kind", 3),
    ] {
        let theirs = space.ok(&format!("{kubectl} {line}"));
        let ours = space.ok(&format!("karmadactl {line}"));
        let words = |text: &str| -> Vec<Vec<String>> {
            let lines = text.lines().filter(|line| !line.is_empty());
            let words = |line: &str| still(line).split_whitespace().map(str::to_owned).collect();
            lines.map(words).collect()
        };
        let ours: Vec<Vec<String>> = words(&ours)
            .into_iter()
            .map(|mut row| {
                row.remove(1);
                // Labels come behind everything.
                let adoption = row.iter().rposition(|word| word == "-" || word == "ADOPTION");
                row.remove(adoption.unwrap_or_else(|| panic!("no ADOPTION in {row:?}")));
                row
            })
            .collect();
        let theirs = words(&theirs);
        assert!(theirs.iter().any(|row| row.len() >= columns), "{line}: {theirs:?}");
        assert_eq!(ours, theirs, "{line}");
    }
}

const FORMATS: &[&str] = &[
    "-o json",
    "-o yaml",
    "-o kyaml",
    "-o name",
    "-o json --show-managed-fields",
    "-o jsonpath='{.metadata.name}{\"\\n\"}'",
    "-o jsonpath='{range .items[*]}{.metadata.name}={.kind}{\"\\n\"}{end}'",
    "-o jsonpath-as-json='{.items[*].metadata.name}'",
    "-o jsonpath-file=path.txt # items",
    "-o go-template='{{.kind}} {{.apiVersion}}{{\"\\n\"}}'",
    "-o go-template-file=template.txt # items",
    "-o template='{{.apiVersion}}'",
    "-o custom-columns=NAME:.metadata.name,LABEL:.metadata.labels.name",
    "-o custom-columns-file=columns.txt",
    "-o custom-columns=NAME:.metadata.name --no-headers",
];
