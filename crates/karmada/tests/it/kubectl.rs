//! The session that every user has with the server, by real kubectl of several ages. Paths of
//! the programs come from `KARMADA_TEST_KUBECTLS` (separated by colons), as `./test` sets it.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};

use base64::Engine as _;
use regex::Regex;

use crate::environment::confine;
use crate::server::{PATIENCE, Server, eventually, text};

/// One command and what it must answer.
struct Step {
    /// The oldest minor version that knows the command.
    since: u32,
    args: &'static str,
    stdin: &'static str,
    code: i32,
    /// Every pattern must be found in what is printed.
    prints: &'static [&'static str],
    /// Whether a controller has to act first, so that the command is tried for a while.
    eventually: bool,
}

const fn step(args: &'static str, prints: &'static [&'static str]) -> Step {
    Step { since: 0, args, stdin: "", code: 0, prints, eventually: false }
}

const fn fed(args: &'static str, stdin: &'static str, prints: &'static [&'static str]) -> Step {
    Step { stdin, ..step(args, prints) }
}

const fn since(since: u32, args: &'static str, prints: &'static [&'static str]) -> Step {
    Step { since, ..step(args, prints) }
}

const fn fails(args: &'static str, prints: &'static [&'static str]) -> Step {
    Step { code: 1, ..step(args, prints) }
}

const fn settles(args: &'static str, prints: &'static [&'static str]) -> Step {
    Step { eventually: true, ..step(args, prints) }
}

const DEPLOYMENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: "nginx:1.25", ports: [{containerPort: 80}]}
"#;

const CHANGED: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: "nginx:1.26", ports: [{containerPort: 80}]}
"#;

const CRD: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crontabs.stable.example.com}
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: crontabs, singular: crontab, kind: CronTab, shortNames: [ct]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: Spec, type: string, jsonPath: .spec.cronSpec}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [cronSpec]
            properties:
              cronSpec: {type: string}
              replicas: {type: integer, default: 1, minimum: 0}
"#;

const MISSPELT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: misspelt}
spec:
  replica: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
"#;

const NODE: &str = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}";

const ROLE: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: shop}
rules:
- {apiGroups: [""], resources: [pods], verbs: [get, list, watch]}
"#;

/// What `kubectl edit` calls: an editor that changes one line.
const EDITOR: &str = "sed -i 's/progressDeadlineSeconds: 600/progressDeadlineSeconds: 700/'";

const SESSION: &[Step] = &[
    step("version", &["Server Version"]),
    step("api-versions", &["(?m)^apps/v1$", "(?m)^v1$", "rbac.authorization.k8s.io/v1"]),
    step(
        "api-resources",
        &["(?m)^deployments +deploy +apps/v1 +true +Deployment", "(?m)^namespaces +ns "],
    ),
    step("cluster-info", &["is running at"]),
    step("create namespace shop", &["namespace/shop created"]),
    step("get namespaces", &["(?m)^NAME +STATUS +AGE", "(?m)^shop +Active "]),
    step("-n shop create configmap settings --from-literal=a=1", &["configmap/settings created"]),
    step("-n shop create secret generic pass --from-literal=p=1", &["secret/pass created"]),
    step("-n shop create serviceaccount robot", &["serviceaccount/robot created"]),
    step("-n shop create deployment api --image=nginx", &["deployment.apps/api created"]),
    step("-n shop create service clusterip api --tcp=80:8080", &["service/api created"]),
    step("-n shop create job once --image=busybox -- true", &["job.batch/once created"]),
    step("-n shop create quota limits --hard=pods=10", &["resourcequota/limits created"]),
    step("create clusterrole reader --verb=get --resource=pods", &["clusterrole.*reader created"]),
    step(
        "create clusterrolebinding readers --clusterrole=reader --user=jane",
        &["clusterrolebinding.*readers created"],
    ),
    fed("-n shop create -f -", DEPLOYMENT, &["deployment.apps/web created"]),
    Step {
        code: 1,
        ..fed("-n shop create -f -", DEPLOYMENT, &["AlreadyExists", "\"web\" already exists"])
    },
    fed("-n shop apply -f -", DEPLOYMENT, &["deployment.apps/web configured"]),
    fed("-n shop apply -f -", DEPLOYMENT, &["deployment.apps/web unchanged"]),
    Step { code: 1, ..fed("-n shop diff -f -", CHANGED, &["nginx:1.26", "replicas: 3"]) },
    fed("-n shop apply -f -", CHANGED, &["deployment.apps/web configured"]),
    step(
        "-n shop get deployments",
        &["(?m)^NAME +READY +UP-TO-DATE +AVAILABLE +AGE", "(?m)^web +0/3 "],
    ),
    step("-n shop get deploy web -o wide", &["nginx:1.26", "app=web"]),
    step("-n shop get deploy web -o yaml", &["progressDeadlineSeconds: 600", "maxSurge: 25%"]),
    step("-n shop get deploy web -o jsonpath={.spec.replicas}", &["^3"]),
    step("-n shop get deploy --sort-by=.metadata.name", &["(?s)api.*web"]),
    step("-n shop get all", &["service/api", "deployment.apps/web", "job.batch/once"]),
    step("-n shop describe deploy web", &["Replicas: +3 desired", "Image: +nginx:1.26"]),
    step("-n shop label deploy web tier=front", &["deployment.apps/web labeled"]),
    step("-n shop annotate deploy web note=1", &["deployment.apps/web annotated"]),
    step("-n shop get deploy -l tier=front -o name", &["^deployment.apps/web"]),
    step(
        r#"-n shop patch deploy web -p {"spec":{"paused":true}}"#,
        &["deployment.apps/web patched"],
    ),
    step(
        r#"-n shop patch deploy web --type=merge -p {"spec":{"paused":false}}"#,
        &["deployment.apps/web patched"],
    ),
    step(
        r#"-n shop patch deploy web --type=json -p [{"op":"replace","path":"/spec/replicas","value":4}]"#,
        &["deployment.apps/web patched"],
    ),
    step("-n shop set image deploy/web web=nginx:1.27", &["deployment.apps/web image updated"]),
    step("-n shop scale deploy web --replicas=5", &["deployment.apps/web scaled"]),
    step("-n shop scale deploy web --current-replicas=5 --replicas=6", &["scaled"]),
    step("-n shop get deploy web -o jsonpath={.spec.replicas}", &["^6"]),
    step("-n shop rollout restart deploy/web", &["deployment.apps/web restarted"]),
    fed("-n shop replace -f -", DEPLOYMENT, &["deployment.apps/web replaced"]),
    since(22, "-n shop create token robot", &[r"^[\w-]+\.[\w-]+\.[\w-]+"]),
    since(28, "auth whoami", &["system:admin", "system:masters"]),
    step("auth can-i create deployments", &["yes"]),
    step("auth can-i get pods --as jane", &["yes"]),
    Step { code: 1, ..step("auth can-i delete pods --as jane", &["no"]) },
    fails("get pods -A --as nobody", &["Forbidden", "\"nobody\" cannot list resource \"pods\""]),
    step("explain deployment.spec.replicas", &["(?i)replicas"]),
    step("get events -A", &[""]),
    fed("apply -f -", CRD, &["customresourcedefinition.* created"]),
    step(
        "wait --for=condition=Established crd/crontabs.stable.example.com --timeout=300s",
        &["condition met"],
    ),
    fed(
        "-n shop apply -f -",
        "apiVersion: stable.example.com/v1\nkind: CronTab\nmetadata: {name: nightly}\nspec: {cronSpec: '0 2 * * *'}",
        &["crontab.stable.example.com/nightly created"],
    ),
    step("-n shop get ct", &["(?m)^NAME +SPEC", "nightly +0 2"]),
    step("-n shop get ct nightly -o jsonpath={.spec.replicas}", &["^1"]),
    Step {
        code: 1,
        ..fed(
            "-n shop apply --validate=false -f -",
            "apiVersion: stable.example.com/v1\nkind: CronTab\nmetadata: {name: bad}\nspec: {replicas: -1}",
            &["spec.cronSpec: Required value"],
        )
    },
    fed(
        "-n shop apply --server-side -f -",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: applied}\ndata: {a: b}",
        &["configmap/applied serverside-applied"],
    ),
    Step {
        code: 1,
        ..fed("-n shop create -f -", MISSPELT, &[r#"unknown field "(spec\.)?replica""#])
    },
    settles("-n shop get serviceaccount default", &["(?m)^default "]),
    settles("-n shop get configmap kube-root-ca.crt", &["(?m)^kube-root-ca.crt +1 "]),
    step("-n shop run shell --image=busybox --labels=app=shell", &["pod/shell created"]),
    step(
        "-n shop get pods -o wide",
        &["(?m)^NAME +READY +STATUS +RESTARTS", "(?m)^shell +0/1 +Pending"],
    ),
    step("-n shop get pods --field-selector=status.phase=Pending -o name", &["^pod/shell"]),
    step(
        "-n shop describe pod shell",
        &[r"serviceaccount from kube-api-access-\w{5} \(ro\)", "Image: +busybox"],
    ),
    step("-n shop expose deploy web --port=80 --target-port=8080", &["service/web exposed"]),
    step("-n shop get service web", &[r"(?m)^web +ClusterIP +\d+\.\d+\.\d+\.\d+ +<none> +80/TCP"]),
    step("-n shop autoscale deploy web --min=1 --max=3 --name=web", &["web autoscaled"]),
    step("-n shop get hpa", &["(?m)^web +Deployment/web "]),
    step("-n shop set env deploy/web MODE=test", &["deployment.apps/web env updated"]),
    step("-n shop set resources deploy web --limits=cpu=100m", &["resource requirements updated"]),
    step("-n shop set serviceaccount deploy web robot", &["serviceaccount updated"]),
    step("-n shop edit deploy web", &["deployment.apps/web edited"]),
    step("-n shop get deploy web -o jsonpath={.spec.progressDeadlineSeconds}", &["^700"]),
    step("-n shop rollout pause deploy/web", &["deployment.apps/web paused"]),
    step("-n shop rollout resume deploy/web", &["deployment.apps/web resumed"]),
    step("-n shop rollout status deploy/web --watch=false", &["(?i)waiting for deployment"]),
    since(
        24,
        r#"-n shop patch deploy web --subresource=status --type=merge -p {"status":{"replicas":2}}"#,
        &["deployment.apps/web patched"],
    ),
    since(
        24,
        "-n shop get deploy web --subresource=status -o jsonpath={.status.replicas}",
        &["^2"],
    ),
    step("-n shop create role reader --verb=get,list --resource=pods", &["reader created"]),
    step(
        "-n shop create rolebinding readers --role=reader --serviceaccount=shop:robot",
        &["readers created"],
    ),
    step("-n shop auth can-i list pods --as system:serviceaccount:shop:robot", &["yes"]),
    step(
        "-n shop auth can-i --list --as system:serviceaccount:shop:robot",
        &["pods .*\\[get list\\]"],
    ),
    fed("auth reconcile -f -", ROLE, &["(reconciled|unchanged)"]),
    since(21, "-n shop create ingress web --rule=example.com/=web:80", &["ingress.* created"]),
    since(21, "-n shop create pdb web --selector=app=web --min-available=1", &["web created"]),
    since(
        21,
        "-n shop create cronjob nightly --image=busybox --schedule=@daily",
        &["nightly created"],
    ),
    step("create priorityclass urgent --value=1000", &["priorityclass.*/urgent created"]),
    step(
        "-n shop create configmap dry --from-literal=a=1 --dry-run=server",
        &["created \\(server dry run\\)"],
    ),
    fails("-n shop get configmap dry", &["NotFound"]),
    fed("create -f -", NODE, &["node/n1 created"]),
    step("taint nodes n1 dedicated=shop:NoSchedule", &["node/n1 tainted"]),
    step("get node n1 -o jsonpath={.spec.taints[*].key}", &["dedicated"]),
    step("taint nodes n1 dedicated-", &["node/n1 untainted"]),
    step("cordon n1", &["node/n1 cordoned"]),
    step("get nodes", &["(?m)^n1 +[A-Za-z]+,SchedulingDisabled "]),
    step("uncordon n1", &["node/n1 uncordoned"]),
    step("describe node n1", &["Unschedulable: +false"]),
    step("describe namespace shop", &["Status: +Active", "Resource Quotas"]),
    step("-n shop describe service web", &["TargetPort: +8080/TCP"]),
    step("-n shop describe configmap settings", &["(?s)a:.*1"]),
    step("-n shop describe secret pass", &["p: +1 bytes"]),
    step(
        "-n shop get configmaps --chunk-size=1 -o name",
        &["configmap/applied", "configmap/settings"],
    ),
    step("-n shop get cm settings -o go-template={{.data.a}}", &["^1"]),
    step("-n shop get cm -o custom-columns=N:.metadata.name", &["(?m)^N", "(?m)^settings"]),
    step("-n shop label cm settings a=b", &["labeled"]),
    fails("-n shop label cm settings a=c", &["already has a value"]),
    step("-n shop label cm settings a=c --overwrite", &["labeled"]),
    step("-n shop label cm settings a-", &["configmap/settings (unlabeled|labeled)"]),
    step("-n shop delete pod shell --now", &["pod \"shell\" deleted"]),
    step("-n shop delete cm -l missing=label", &["No resources found"]),
    step("-n shop delete secrets --all", &["secret \"pass\" deleted"]),
    Step {
        since: 22,
        ..fed("-n shop replace --force -f -", DEPLOYMENT, &["deployment.apps/web replaced"])
    },
    step("get --raw /readyz", &["^ok"]),
    step("get --raw /version", &[r#""major": "1""#]),
    fails("top nodes", &["(?i)metrics"]),
    fails("-n shop get configmap missing", &["NotFound", r#"configmaps "missing" not found"#]),
    fails("get nonsense", &["the server doesn't have a resource type"]),
    step("-n shop delete deploy web", &["deployment.apps \"web\" deleted"]),
    since(24, "-n shop wait --for=delete deploy/web --timeout=300s", &[""]),
    step("delete crd crontabs.stable.example.com", &["deleted"]),
    step("delete node n1", &["node \"n1\" deleted"]),
    step("delete priorityclass urgent", &["deleted"]),
    step("delete clusterrole reader", &["deleted"]),
    step("delete clusterrolebinding readers", &["deleted"]),
    step("delete namespace shop", &["namespace \"shop\" deleted"]),
    fails("get namespace shop", &["NotFound"]),
];

// Shows: URL-1, DISC-1, DISC-2, VER-1, NEG-1, NEG-2, NEG-3, NEG-4, TAB-1, LIST-2, LIST-5, WR-1, WR-2, WR-3, WR-4
// Shows: WR-5, NS-1, NS-2, SUB-1, SUB-2, SUB-3, CRD-2, CRD-3, CRD-4, CRD-5, AUTHN-4, AUTHN-6, AUTHZ-1, AUTHZ-5
// Shows: DEL-4, DEL-5, KIND-6, OAPI-1, SSA-1
#[test]
fn kubectl_of_every_age_finds_a_kubernetes() {
    let server = Server::member();
    for kubectl in Kubectl::all(&server) {
        for step in SESSION.iter().filter(|step| step.since <= kubectl.minor) {
            kubectl.judge(step);
        }
    }
}

// Shows: WATCH-1, WATCH-8
#[test]
fn kubectl_follows_what_others_write() {
    let server = Server::member();
    for kubectl in Kubectl::all(&server) {
        let name = format!("watched-{}", kubectl.number);
        let mut watching = kubectl
            .command("get configmaps -w")
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("start kubectl");
        let lines = lines_of(watching.stdout.take().expect("stdout is piped"));
        kubectl.expect(&format!("create configmap {name}"));
        await_line(&lines, &format!("^{name} +0 "));
        kubectl
            .expect(&format!(r#"patch configmap {name} --type=merge -p {{"data":{{"a":"1"}}}}"#));
        await_line(&lines, &format!("^{name} +1 "));
        watching.kill().expect("stop kubectl");
        watching.wait().expect("wait for kubectl");
    }
}

// Shows: DEL-3, WATCH-4
#[test]
fn kubectl_waits_until_the_last_finalizer_is_gone() {
    let server = Server::member();
    for kubectl in Kubectl::all(&server) {
        kubectl.expect("create configmap held");
        kubectl.expect(
            r#"patch configmap held --type=merge -p {"metadata":{"finalizers":["example.com/hold"]}}"#,
        );
        kubectl.expect("delete configmap held --wait=false");
        let mut waiting = kubectl
            .command("wait --for=delete configmap/held --timeout=300s -v=6")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start kubectl");
        // An old one takes an object that is gone before it began to wait for a mistake.
        let requests = lines_of(waiting.stderr.take().expect("stderr is piped"));
        await_line(&requests, "watch=true");
        let held = kubectl.expect("get configmap held -o jsonpath={.metadata.deletionTimestamp}");
        assert!(!held.is_empty(), "not being deleted");
        assert!(waiting.try_wait().expect("ask for kubectl").is_none(), "did not wait");
        kubectl.expect(r#"patch configmap held --type=merge -p {"metadata":{"finalizers":null}}"#);
        assert!(waiting.wait().expect("wait for kubectl").success());
    }
}

// Shows: CSR-1, AUTHN-2, SUB-3
#[test]
fn an_approved_certificate_logs_in() {
    let server = Server::member();
    for kubectl in Kubectl::all(&server) {
        let folder = kubectl.home.clone();
        let key = folder.join("jane.key");
        let request = openssl(&[
            "req",
            "-new",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=jane/O=crew",
            "-keyout",
            key.to_str().expect("a path in UTF-8"),
        ]);
        let request = base64::engine::general_purpose::STANDARD.encode(request);
        let manifest = format!(
            "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nmetadata: {{name: jane}}\n\
             spec: {{request: {request}, signerName: kubernetes.io/kube-apiserver-client, usages: [client auth]}}"
        );
        kubectl.fed("create -f -", &manifest);
        assert!(kubectl.expect("get csr jane").contains("Pending"));
        // Compat: before 1.22 kubectl approves through v1beta1, which 1.36 no longer serves.
        if kubectl.minor >= 22 {
            kubectl.expect("certificate approve jane");
            let certificate = eventually("the certificate is issued", || {
                let text = kubectl.expect("get csr jane -o jsonpath={.status.certificate}");
                (!text.is_empty()).then_some(text)
            });
            assert!(kubectl.expect("get csr jane").contains("Approved,Issued"));
            let pem =
                base64::engine::general_purpose::STANDARD.decode(certificate).expect("base64");
            let path = folder.join("jane.crt");
            std::fs::write(&path, pem).expect("write the certificate");
            kubectl.expect("create clusterrolebinding crew --clusterrole=view --group=crew");
            kubectl.expect(&format!(
                "config set-credentials jane --client-certificate={} --client-key={}",
                path.display(),
                key.display()
            ));
            let login = "--user=jane";
            assert!(kubectl.expect(&format!("{login} auth can-i list configmaps")).contains("yes"));
            let refused = kubectl.run(&format!("{login} create configmap x"), "");
            assert!(text(&refused).contains("User \"jane\" cannot create"), "{}", text(&refused));
            kubectl.expect("delete clusterrolebinding crew");
        }
        kubectl.expect("delete csr jane");
    }
}

/// One kubectl, its settings kept apart from those of the others.
pub(crate) struct Kubectl<'a> {
    program: String,
    number: usize,
    minor: u32,
    home: PathBuf,
    server: &'a Server,
}

impl<'a> Kubectl<'a> {
    /// Every kubectl that `KARMADA_TEST_KUBECTLS` names.
    pub(crate) fn all(server: &'a Server) -> Vec<Self> {
        let Ok(programs) = std::env::var("KARMADA_TEST_KUBECTLS") else {
            eprintln!("SKIPPED kubectl: KARMADA_TEST_KUBECTLS names none (./test sets it)");
            return Vec::new();
        };
        let programs = programs.split(':').filter(|program| !program.is_empty());
        programs.enumerate().map(|(number, program)| Self::new(number, program, server)).collect()
    }

    fn new(number: usize, program: &str, server: &'a Server) -> Self {
        // Two of them may be of one age.
        let home = server.scratch().join(format!("home-{number}"));
        let minor = minor_version(program, &home);
        eprintln!("kubectl 1.{minor}: {program}");
        Self { program: program.to_owned(), number, minor, home, server }
    }

    pub(crate) fn minor(&self) -> u32 {
        self.minor
    }

    fn command(&self, args: &str) -> Command {
        let mut command = Command::new(&self.program);
        confine(&mut command, &self.home)
            .args(args.split(' '))
            .env("KUBECONFIG", self.server.kubeconfig())
            .env("KUBE_EDITOR", EDITOR);
        command
    }

    pub(crate) fn run(&self, args: &str, stdin: &str) -> Output {
        let mut process = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start kubectl");
        let mut pipe = process.stdin.take().expect("stdin is piped");
        // A program that fails early does not read what it is fed.
        let _ = pipe.write_all(stdin.as_bytes());
        drop(pipe);
        process.wait_with_output().expect("wait for kubectl")
    }

    /// Runs a command that must succeed and returns what it printed.
    pub(crate) fn expect(&self, args: &str) -> String {
        self.fed(args, "")
    }

    pub(crate) fn fed(&self, args: &str, stdin: &str) -> String {
        let output = self.run(args, stdin);
        assert!(output.status.success(), "{}", self.describe(args, &text(&output)));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn judge(&self, step: &Step) {
        let attempt = || {
            let output = self.run(step.args, step.stdin);
            let text = text(&output);
            let code = output.status.code() == Some(step.code);
            let missing = step.prints.iter().find(|pattern| !pattern_of(pattern).is_match(&text));
            match missing {
                _ if !code => Err(self.describe(step.args, &format!("{}: {text}", output.status))),
                Some(missing) => {
                    Err(self.describe(step.args, &format!("no {missing:?} in {text}")))
                }
                None => Ok(()),
            }
        };
        if step.eventually {
            eventually(step.args, || attempt().ok());
        } else if let Err(problem) = attempt() {
            panic!("{problem}");
        }
    }

    fn describe(&self, args: &str, text: &str) -> String {
        format!("kubectl 1.{} {args}\n{text}\n--- server log\n{}", self.minor, self.server.log())
    }
}

fn minor_version(program: &str, home: &Path) -> u32 {
    let output = confine(&mut Command::new(program), home)
        .args(["version", "--client", "-o", "json"])
        // The installed program may only pick another one by the server's version.
        .env("KUBECONFIG", "/nonexistent")
        .output()
        .expect("ask kubectl for its version");
    let text = text(&output);
    let found =
        pattern_of(r#""gitVersion": "v1\.(\d+)"#).captures(&text).map(|found| found[1].parse());
    found.unwrap_or_else(|| panic!("no version in: {text}")).expect("digits")
}

fn pattern_of(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a valid pattern")
}

fn lines_of(stdout: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

fn await_line(lines: &Receiver<String>, pattern: &str) {
    let pattern = pattern_of(pattern);
    loop {
        let line = lines.recv_timeout(PATIENCE);
        let line = line.unwrap_or_else(|error| panic!("no line matches {pattern}: {error}"));
        if pattern.is_match(&line) {
            return;
        }
    }
}

fn openssl(args: &[&str]) -> String {
    let output = Command::new("openssl").args(args).output().expect("run openssl");
    assert!(output.status.success(), "{}", text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
