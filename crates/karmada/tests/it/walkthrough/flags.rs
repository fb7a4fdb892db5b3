//! Every flag that is promised, used once. The table is checked against the help: a flag that nobody tries is found.

use std::time::Instant;

use super::shell::{Answer, Space, Terminal as _, deployment};
use crate::server::PATIENCE;

/// Command lines that succeed, in this order, beside the examples of the help. What they print is tested elsewhere;
/// `|` begins what the output must contain.
const LINES: &[&str] = &[
    // Objects from files and flags.
    "karmadactl create -f app.yaml --dry-run=server --save-config --field-manager me --validate=warn -o name | deployment.apps/nginx",
    "karmadactl create -f folder -R -l app=nginx | deployment.apps/nginx created",
    "karmadactl create --raw /api/v1/namespaces/flags/configmaps -f map.json | \"kind\":\"ConfigMap\"",
    "EDITOR='sed -i s/first/second/' karmadactl create -f map.yaml --edit --windows-line-endings | configmap/second created",
    "karmadactl create configmap full --from-env-file=env.txt --from-file=app.yaml --append-hash --template x -o name | configmap/full-",
    "karmadactl create secret generic typed --type example.com/kind --from-env-file=env.txt --from-file=app.yaml | created",
    "karmadactl create secret generic named --from-literal=a=b --append-hash | secret/named-",
    "karmadactl create secret docker-registry other --from-file=map.json --docker-server=example.com | created",
    "karmadactl create secret docker-registry mailed --docker-username=a --docker-password=b --docker-email=c@example.com --append-hash | secret/mailed-",
    "karmadactl create secret tls hashed --cert=app.yaml --key=app.yaml --append-hash | secret/hashed-",
    "karmadactl create clusterrole flags --verb=get --resource=pods --resource-name=a --dry-run=client | created (dry run)",
    "karmadactl create clusterrole flags --verb=get --non-resource-url=/healthz --dry-run=client | created",
    "karmadactl create clusterrole flags --aggregation-rule=a=b --dry-run=client -o jsonpath='{.aggregationRule}' | matchLabels",
    "karmadactl create clusterrolebinding flags --clusterrole=view --group=g --serviceaccount=a:b --dry-run=client -o yaml | name: b",
    "karmadactl create role named --verb=get --resource=secrets --resource-name=a | created",
    "karmadactl create rolebinding named --clusterrole=view --group=g --serviceaccount=a:b | created",
    "karmadactl create cronjob flags --image=busybox --schedule='@daily' --restart=Never | created",
    "karmadactl create poddisruptionbudget flags --selector=app=x --max-unavailable=1 | created",
    "karmadactl create priorityclass flags --value=1 --global-default --preemption-policy=Never --dry-run=client -o yaml | globalDefault: true",
    "karmadactl create quota flags --hard=pods=10 --scopes=BestEffort | created",
    "karmadactl create ingress flags --class=edge --default-backend=web:80 --annotation=a=b | created",
    "karmadactl create service clusterip flags --clusterip=None | created",
    "karmadactl create service externalname flags-far --external-name=far.example.com --tcp=80 | created",
    "karmadactl create service nodeport flags-port --tcp=80 --node-port=30999 | created",
    "karmadactl create serviceaccount robot | created",
    "karmadactl create token robot --audience=a --bound-object-kind=Secret --bound-object-name=typed --bound-object-uid=$(kubectl get secret typed -o jsonpath='{.metadata.uid}') -o jsonpath='{.kind}' | TokenRequest",
    // Applying.
    "karmadactl apply -f app.yaml --openapi-patch=false --overwrite=false --wait=false --timeout=5s --force | nginx",
    "karmadactl apply -f app.yaml --server-side --force-conflicts --field-manager me --validate=strict | serverside-applied",
    "karmadactl apply -f status.yaml --server-side --subresource status --field-manager me | serverside-applied",
    "karmadactl apply -f app.yaml --prune --all --prune-allowlist core/v1/Pod --cascade=foreground --grace-period=1 --dry-run=client | nginx",
    "karmadactl apply -f folder --recursive --selector app=nginx --cluster member1 | nginx",
    // Looking.
    "karmadactl get deploy --all-namespaces --show-labels --no-headers --show-kind --label-columns app | deployment.apps/nginx",
    "karmadactl get deploy nosuch --ignore-not-found",
    "karmadactl get cm -o go-template --template='{{range .items}}{{.metadata.name}} {{end}}' --allow-missing-template-keys=false | second",
    "karmadactl get deploy -o custom-columns=N:.metadata.name --sort-by=.metadata.name --labels app=nginx | nginx",
    "karmadactl get deploy nginx -o yaml --show-managed-fields | managedFields",
    "karmadactl get deploy --operation-scope all --clusters member1 | member1",
    "exec karmadactl get deploy --watch --output-watch-events | ADDED",
    "timeout -s INT 3 karmadactl get deploy --watch-only; true",
    "karmadactl describe -f app.yaml --show-events=false --chunk-size=10 | Name:",
    "karmadactl describe deploy --all-namespaces --selector app=nginx -R | Name:",
    "karmadactl explain deployment --api-version apps/v1 --recursive --output plaintext | replicas",
    "karmadactl explain pod --operation-scope members --cluster member1 | KIND:",
    "karmadactl api-resources --api-group apps --namespaced --verbs list --sort-by name --no-headers --cached -o name | deployments.apps",
    "karmadactl api-resources --categories all --namespaced=false; true",
    "karmadactl api-resources --operation-scope members --cluster member1 -o yaml --show-managed-fields | deployments",
    "karmadactl api-versions --operation-scope members --cluster member1 | apps/v1",
    // Changing.
    "karmadactl label deploy nginx a=b --overwrite --field-manager me --resource-version $(kubectl get deploy nginx -o jsonpath='{.metadata.resourceVersion}') | labeled",
    "karmadactl label deploy --all a=c --overwrite --dry-run=client -o name | nginx",
    "karmadactl label deploy nginx --list | a=b",
    "karmadactl label -f app.yaml --local a=d -o yaml | a: d",
    "karmadactl label deploy --field-selector metadata.name=nginx --all-namespaces b=c --selector a=b | labeled",
    "karmadactl annotate -f app.yaml a=b --overwrite --field-manager me | annotated",
    "karmadactl annotate deploy --all c=d --dry-run=server --template x -o name | nginx",
    "karmadactl annotate deploy nginx --list --show-managed-fields | a=b",
    "karmadactl annotate -f app.yaml -R --local a=d -o yaml | a: d",
    "karmadactl annotate deploy --selector a=b --field-selector metadata.name=nginx --all-namespaces e=f --resource-version='' | annotated",
    "karmadactl patch deploy nginx --type merge --patch '{\"spec\":{\"paused\":true}}' --field-manager me --dry-run=server -o name | nginx",
    "karmadactl patch deploy nginx --type json --patch-file patch.json | patched",
    "karmadactl patch -f app.yaml --local -p '{\"spec\":{\"replicas\":5}}' -o yaml | replicas: 5",
    "karmadactl patch deploy nginx --subresource status --type merge -p '{\"status\":{\"observedGeneration\":1}}' | patched",
    "EDITOR='sed -i s/replicas:.1/replicas:\\ 2/' karmadactl edit deploy nginx --save-config --validate=strict --windows-line-endings --output-patch --field-manager me | Patch: ",
    "EDITOR='sed -i s/xxx/yyy/' karmadactl edit -f app.yaml -o json --subresource status",
    "karmadactl interpret -f ric.yaml --operation ReviseReplica --observed-file app.yaml --desired-replica 7 -o json | 7",
    "karmadactl interpret -f ric.yaml --operation Retain --desired-file app.yaml --observed-file app.yaml | retained",
    "karmadactl interpret -f ric.yaml --operation AggregateStatus --observed-file app.yaml --status-file items.yaml | aggregatedStatus",
    "EDITOR='sed -i s/+0/+1/' karmadactl interpret -f ric.yaml --edit --show-doc | edited",
    "karmadactl interpret -f ric.yaml -R --check --template x --show-managed-fields --allow-missing-template-keys | PASS",
    // Members.
    "karmadactl logs -l app=nginx -C member1 --prefix --timestamps --tail=1 --max-log-requests 9 --ignore-errors --all-containers --since 1h --limit-bytes 1000 | [pod/nginx",
    "karmadactl logs deploy/nginx --cluster member1 --all-pods --since-time 2020-01-01T00:00:00Z --container nginx --pod-running-timeout 1m --insecure-skip-tls-verify-backend | nginx",
    "karmadactl logs deploy/nginx --cluster member1 --previous; true",
    "timeout -s INT 3 karmadactl logs deploy/nginx --cluster member1 --follow --selector=''; true",
    "karmadactl exec -f app.yaml --operation-scope members --cluster member1 --container nginx --quiet --pod-running-timeout 1m -- echo in | in",
    "karmadactl exec deploy/nginx -s members -C member1 --stdin --tty -- sh < /dev/null; true",
    "timeout -s INT 3 karmadactl attach deploy/nginx -s members --cluster member1 --container nginx --stdin --tty --quiet --pod-running-timeout 1m < /dev/null; true",
    "karmadactl top pod --clusters member1 --selector app=nginx --field-selector status.phase=Running --sum --no-headers --use-protocol-buffers=false | nginx",
    "karmadactl top pod --all-namespaces --clusters member1 | nginx",
    "karmadactl top node --clusters member1 --selector kubernetes.io/os=linux --no-headers --sort-by memory --use-protocol-buffers | member1",
    "karmadactl promote deployment nginx -C member1 --cluster-kubeconfig $MEMBERS/member1.config --cluster-context '' --auto-create-policy=false --policy-name p --dependencies --dry-run",
    // Clusters.
    "karmadactl join flags --cluster-kubeconfig $MEMBERS/member1.config --cluster-namespace n --cluster-provider p --cluster-region r --cluster-zones a,b --karmada-as nobody --karmada-as-group g --karmada-as-uid u --dry-run; true",
    "karmadactl unjoin member1 --cluster-kubeconfig $MEMBERS/member1.config --cluster-context '' --cluster-namespace karmada-cluster --force --wait 1s --dry-run",
    "karmadactl cordon member1 --dry-run | cordoned",
    "karmadactl uncordon member1 --dry-run | uncordoned",
    "karmadactl taint clusters member1 a=b:NoSchedule --overwrite --dry-run | cluster/member1",
    // Asking, and words of other tools.
    "karmadactl why deploy/nginx --cluster member1 -o json | subject",
    "karmadactl why-not deploy/nginx --cluster member2 -o yaml | rejectedBy",
    "karmadactl version --add-dir-header --alsologtostderr --alsologtostderrthreshold=1 --legacy-stderr-threshold-behavior=false --log-backtrace-at=:0 --log-dir=x --log-file=x --log-file-max-size=1 --logtostderr=false --one-output --skip-headers --skip-log-headers --stderrthreshold=2 --vmodule=a=1 -v=0 | GitVersion",
    "karmadactl --kubeconfig $KUBECONFIG --karmada-context karmada-apiserver --request-timeout 1m -n flags get deploy | nginx",
    // And away with it.
    "karmadactl delete cm second --now -o name | configmap/second",
    "karmadactl delete --raw /api/v1/namespaces/flags/configmaps/raw | Status",
    "yes | karmadactl delete secret typed --interactive --grace-period=0 --force --timeout=1m --wait=false | deleted",
    "karmadactl delete -f folder -R --cascade=foreground --ignore-not-found | nginx",
    "karmadactl delete deploy --all --all-namespaces --field-selector metadata.namespace=flags --selector a=b --dry-run=server; true",
];

/// Flags that stand for something this program does not do, with the reason it gives; and what every command has.
const APART: &[&str] = &["kustomize", "help"];

// Shows: MISC-2
#[test]
fn every_flag_is_tried() {
    let Some(space) = Space::new("flags") else { return };
    write_files(&space);
    let mut tried = String::new();
    for entry in LINES {
        let (line, expected) = match entry.rsplit_once(" | ") {
            Some((line, expected)) => (line, expected),
            None => (*entry, ""),
        };
        if line.starts_with("karmadactl logs -l") {
            space.until(
                "kubectl --kubeconfig $MEMBERS/member1.config get pods --no-headers",
                |out| !out.is_empty() && out.lines().all(|pod| pod.contains("Running")),
            );
        }
        if line.contains(" top ") {
            space.until("karmadactl top pod -C member1", |out| out.contains("nginx-"));
        }
        if line.starts_with("exec ") {
            space.follow(line, expected);
        } else {
            let is_right = |answer: &Answer| answer.code == 0 && answer.out.contains(expected);
            let (began, mut answer) = (Instant::now(), space.run(line));
            while only_reads(line) && !is_right(&answer) && began.elapsed() < PATIENCE {
                answer = space.run(line);
            }
            assert!(is_right(&answer), "{line}\n{answer:?}");
        }
        tried.push_str(line);
        tried.push('\n');
    }
    let mut untried = Vec::new();
    walk(&space, "karmadactl", &mut |command, help| {
        let examples: String = help
            .lines()
            .filter(|line| line.starts_with("  karmadactl "))
            .collect::<Vec<_>>()
            .join("\n");
        for flag in help.lines().filter_map(long_flag) {
            let is_tried = |text: &str| {
                text.lines()
                    .any(|line| line.contains(command) && line.contains(&format!("--{flag}")))
            };
            if !APART.contains(&flag) && !is_tried(&tried) && !is_tried(&examples) {
                untried.push(format!("{command} --{flag}"));
            }
        }
    });
    // Flags of printing and connecting are the same code for every command.
    untried.retain(|flag| {
        let shared = [
            "--kubeconfig",
            "--karmada-context",
            "--namespace",
            "--request-timeout",
            "--v",
            "--output",
            "--template",
            "--allow-missing-template-keys",
            "--show-managed-fields",
            "--dry-run",
            "--field-manager",
            "--save-config",
            "--validate",
            "--filename",
            "--recursive",
        ];
        !shared.contains(&flag.rsplit(' ').next().unwrap_or_default())
    });
    assert!(untried.is_empty(), "{untried:#?}");
}

/// Whether a line can be typed again until what it is about has arrived.
fn only_reads(line: &str) -> bool {
    let readers = ["get", "describe", "logs", "top", "why", "why-not"];
    let command = line.strip_prefix("karmadactl ").and_then(|rest| rest.split(' ').next());
    command.is_some_and(|command| readers.contains(&command))
}

/// Calls with every command there is, and its help.
pub(super) fn walk(space: &Space, command: &str, look: &mut dyn FnMut(&str, &str)) {
    let help = space.ok(&format!("{command} --help"));
    if command != "karmadactl" {
        look(command, &help);
    }
    let listed: Vec<String> = match command {
        "karmadactl" => help
            .lines()
            .filter(|line| line.starts_with("  ") && !line.starts_with("  karmadactl"))
            .filter_map(|line| line.split_whitespace().next())
            .map(str::to_owned)
            .collect(),
        _ => help
            .lines()
            .skip_while(|line| *line != "Commands:")
            .skip(1)
            .take_while(|line| !line.is_empty())
            .filter_map(|line| line.split_whitespace().next())
            .map(str::to_owned)
            .collect(),
    };
    for inner in listed {
        walk(space, &format!("{command} {inner}"), look);
    }
}

/// The long flag a line of a help is about.
fn long_flag(line: &str) -> Option<&str> {
    let text = line.trim_start();
    if line.len() - text.len() > 8 || !text.starts_with('-') {
        return None;
    }
    let start = text.find("--")? + 2;
    let rest = &text[start..];
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(rest.len());
    Some(&rest[..end])
}

fn write_files(space: &Space) {
    space.write("app.yaml", &deployment("nginx", 1));
    space.ok("mkdir -p folder/below && cp app.yaml folder/below/app.yaml");
    space.write(
        "map.json",
        r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "raw"}}"#,
    );
    space.write("map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: first}\n");
    space.write("env.txt", "# settings\nA=b\n");
    space
        .write("patch.json", r#"[{"op": "add", "path": "/metadata/annotations/x", "value": "y"}]"#);
    space.write(
        "status.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: nginx}\nstatus: {observedGeneration: 1}\n",
    );
    space.write("items.yaml", "clusterName: m1\nstatus: {replicas: 1}\n");
    space.write(
        "ric.yaml",
        "apiVersion: config.karmada.io/v1alpha1\nkind: ResourceInterpreterCustomization\nmetadata: {name: flags}\nspec:\n  \
         target: {apiVersion: apps/v1, kind: Deployment}\n  customizations:\n    \
         replicaRevision: {luaScript: 'function ReviseReplica(o, n) o.spec.replicas = n+0 return o end'}\n    \
         retention: {luaScript: 'function Retain(a, b) return a end'}\n    \
         statusAggregation: {luaScript: 'function AggregateStatus(o, items) return o end'}\n",
    );
}
