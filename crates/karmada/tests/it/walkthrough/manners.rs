//! How the program treats people: mistakes, help, pipes, secrets, files from anywhere.

use std::io::{BufRead as _, BufReader, Write as _};

use super::flags::walk;
use super::shell::{Space, Terminal, deployment, policy, steady};

/// A17: the plugin comes in an archive, is put beside other programs, and kubectl finds it.
#[test]
fn a17_the_plugin_is_unpacked_and_tells_its_version() {
    let Some(space) = Space::new("a17") else { return };
    space.ok("mkdir -p release usr/local/bin && cp -L $(command -v kubectl-karmada) release/kubectl-karmada");
    space.ok("tar -cf - -C release kubectl-karmada | gzip -1 > kubectl-karmada-linux-amd64.tgz");
    space.ok("tar -zxf kubectl-karmada-linux-amd64.tgz; cp kubectl-karmada usr/local/bin");
    // kubectl does not see the one the other tests use.
    let version = space.ok(
        "ln -s $(command -v kubectl) usr/local/bin/kubectl; PATH=$PWD/usr/local/bin:/usr/bin:/bin kubectl karmada version",
    );
    let fields = "^kubectl karmada version: version\\.Info\\{GitVersion:\"v[^\"]+\", GitCommit:\"[^\"]*\", \
        GitShortCommit:\"[^\"]*\", GitTreeState:\"[^\"]*\", BuildDate:\"[^\"]*\", GoVersion:\"[^\"]*\", \
        Compiler:\"[^\"]*\", Platform:\"[a-z0-9]+/[a-z0-9]+\"\\}\n$";
    assert!(regex::Regex::new(fields).unwrap().is_match(&version), "{version}");
}

/// Mistakes as the original words them, with the nearest right word where there is one.
#[test]
fn mistakes_are_answered_as_people_know_it() {
    let Some(space) = Space::new("mistakes") else { return };
    space.write("deploy.yaml", &deployment("nginx", 1));
    space.write("polcy.yaml", &policy("nginx", "{}").replace("Policy\n", "Polcy\n"));
    // Nobody listens on the first port.
    space.write(
        "nowhere.yaml",
        "{apiVersion: v1, kind: Config, current-context: a, clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}], users: [{name: a, user: {}}], contexts: [{name: a, context: {cluster: a, user: a}}]}",
    );
    let version = space.ok("kubectl karmada version");
    assert!(
        version.starts_with("kubectl karmada version: version.Info{GitVersion:\"v"),
        "{version}"
    );
    let fields = [
        "GitVersion",
        "GitCommit",
        "GitShortCommit",
        "GitTreeState",
        "BuildDate",
        "GoVersion",
        "Compiler",
        "Platform",
    ];
    let places: Vec<_> = fields.iter().map(|field| version.find(&format!("{field}:\""))).collect();
    assert!(places.is_sorted() && places[0].is_some(), "{version}");
    for (line, expected) in [
        (
            "karmadactl get deploy nosuch",
            "error: cluster(Karmada): deployments.apps \"nosuch\" not found\n",
        ),
        (
            "karmadactl get deploymnts",
            "error: cluster(Karmada): the server doesn't have a resource type \"deploymnts\" (did you mean \"deployments\"?)\n",
        ),
        (
            "karmadactl get deploy -C nosuch --operation-scope members",
            "error: clusters don't exist: nosuch\n",
        ),
        (
            "karmadactl get deploy -C membr1 --operation-scope members",
            "error: clusters don't exist: membr1 (did you mean \"member1\"?)\n",
        ),
        (
            "karmadactl cordon nosuch",
            "Error from server (NotFound): clusters.cluster.karmada.io \"nosuch\" not found\n",
        ),
        (
            "karmadactl cordon memebr2",
            "Error from server (NotFound): clusters.cluster.karmada.io \"memebr2\" not found (did you mean \"member2\"?)\n",
        ),
        (
            "karmadactl logs x -C member22",
            "Error from server (NotFound): clusters.cluster.karmada.io \"member22\" not found (did you mean \"member2\"?)\n",
        ),
        (
            "karmadactl get cluster membr1",
            "error: cluster(Karmada): clusters.cluster.karmada.io \"membr1\" not found (did you mean \"member1\"?)\n",
        ),
        (
            "karmadactl describe cluster membr1",
            "Error from server (NotFound): clusters.cluster.karmada.io \"membr1\" not found (did you mean \"member1\"?)\n",
        ),
        (
            "karmadactl label cluster membr1 a=b",
            "Error from server (NotFound): clusters.cluster.karmada.io \"membr1\" not found (did you mean \"member1\"?)\n",
        ),
        ("karmadactl cordon", "error: cluster name is required\n"),
        ("karmadactl apply -f nosuch.yaml", "error: the path \"nosuch.yaml\" does not exist\n"),
        ("karmadactl apply -f deploy.yaml --cluster m9", "error: cluster m9 does not exist\n"),
        ("karmadactl logs nosuch", "error: must specify a cluster\n"),
        ("karmadactl promote deployment x", "error: the cluster cannot be empty\n"),
        (
            "karmadactl --karmada-context karmada-apisrver get clusters",
            "Error in configuration: context was not found for specified context: karmada-apisrver (did you mean \"karmada-apiserver\"?)\nThe kubeconfig has: karmada-apiserver\n",
        ),
        (
            "karmadactl gett",
            "error: unknown command \"gett\" for \"karmadactl\"\n\nDid you mean this?\n\tget\n",
        ),
        (
            "karmadactl get pods --operation-scop all",
            "error: unknown flag: --operation-scop (did you mean --operation-scope?)\nSee 'karmadactl get --help' for usage.\n",
        ),
        (
            "karmadactl apply -k overlays",
            "error: kustomizations are not rendered here; let kubectl or kustomize do that and pass the result on:\n  kubectl kustomize overlays | karmadactl apply -f -\n",
        ),
        (
            "karmadactl --kubeconfig nosuch get pods",
            "error: the kubeconfig nosuch does not exist\n",
        ),
        (
            "karmadactl --kubeconfig nowhere.yaml get pods",
            "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?\n",
        ),
        (
            "karmadactl apply -f polcy.yaml",
            "error: resource mapping not found: no matches for kind \"PropagationPolcy\" in version \"policy.karmada.io/v1alpha1\" (did you mean \"PropagationPolicy\"?)\nensure CRDs are installed first\n",
        ),
        (
            "karmadactl get pods -s member",
            "error: invalid argument \"member\" for \"-s, --operation-scope\" flag: not support OperationScope: member (did you mean \"members\"?)\nSee 'karmadactl get --help' for usage.\n",
        ),
        (
            "karmadactl why deploy/nosuch",
            "Error from server (NotFound): deployments.apps \"nosuch\" not found\n",
        ),
    ] {
        let answer = space.run(line);
        assert_eq!((answer.err.as_str(), answer.code), (expected, 1), "{line}");
    }
    let nothing = space.run("karmadactl get deploy");
    assert_eq!(
        (nothing.err.as_str(), nothing.code),
        ("No resources found in mistakes namespace.\n", 0)
    );
}

#[test]
fn help_of_every_command_has_purpose_example_and_relatives() {
    let Some(space) = Space::new("help") else { return };
    let root = space.ok("karmadactl");
    assert_eq!(root, space.ok("karmadactl --help"));
    let mut count = 0;
    walk(&space, "karmadactl", &mut |command, help| {
        assert!(help.contains("Examples:\n") && help.contains(&format!("\n  {command}")), "{help}");
        assert!(help.contains("See also: "), "{help}");
        assert!(!help.contains('\x1b'), "colour in a pipe: {help:?}");
        for line in help.lines() {
            assert!(line.chars().count() <= 120, "{command}: {line}");
        }
        let as_plugin = command.replacen("karmadactl", "kubectl karmada", 1);
        assert!(space.ok(&format!("{as_plugin} --help")).contains(&as_plugin), "{as_plugin}");
        count += 1;
    });
    assert!(count >= 50, "only {count} commands");
}

/// Every example of every help is typed in as it stands there.
// Shows: MISC-2
#[test]
fn the_examples_of_the_help_work() {
    let Some((space, _clusters)) = Space::exclusive("examples") else { return };
    write_example_files(&space);
    let mut helps = Vec::new();
    walk(&space, "karmadactl", &mut |command, help| {
        helps.push((command.to_owned(), help.to_owned()));
    });
    let mut typed = 0;
    for (command, help) in helps {
        let command = command.split(' ').nth(1).unwrap_or_default();
        prepare(&space, command);
        let pod = space.ok(
            "kubectl --kubeconfig $MEMBERS/member1.config get pods -l app=nginx -o jsonpath='{.items[*].metadata.name}'",
        );
        let pod = pod.split(' ').next().unwrap_or_default();
        for example in help.lines().filter(|line| line.starts_with("  karmadactl ")) {
            type_example(&space, command, &example.trim().replace("nginx-7f8fbb96d-4n7dq", pod));
            typed += 1;
        }
    }
    assert!(typed >= 80, "only {typed} examples");
    space.ok("kubectl -n default delete deployment,propagationpolicy --all");
    space.ok("kubectl patch cluster member1 --type merge -p '{\"spec\":{\"provider\":null}}'");
    space.ok("kubectl delete clusterrole/pod-reader clusterrolebinding/ada-views priorityclass/first namespace/shop");
}

fn type_example(space: &Space, command: &str, example: &str) {
    let endless = command == "attach" || (command == "logs" && example.ends_with(" -f"));
    // What would wait for the user, or for ever, is given nothing and a moment.
    let line = match command {
        "edit" | "interpret" => format!("EDITOR=true {example}"),
        _ if endless => format!("timeout -s INT 3 {example}"),
        "completion" => format!("fpath=(. .); {example}"),
        // Joining and leaving have walkthroughs of their own, with clusters of their own.
        "join" | "unjoin" => format!("{example} --dry-run"),
        _ => format!("{example} < /dev/null"),
    };
    let answer = space.run(&line);
    let is_told = match command {
        "join" => answer.err.contains("has been registered"),
        "create" => answer.err.contains("already exists"),
        _ => endless && answer.code == 124,
    };
    assert!(answer.code == 0 || is_told, "{line}: {answer:?}");
}

/// What the examples are about is there, whatever those before did to it.
fn prepare(space: &Space, command: &str) {
    if command == "create" {
        space.run("kubectl delete deployment nginx");
        return;
    }
    if command == "promote" {
        space.ok("kubectl --kubeconfig $MEMBERS/member1.config -n default create -f nginx.yaml");
    }
    space.ok("karmadactl apply -f nginx.yaml --cluster member1 && kubectl apply -f policies.yaml");
    space.ready("nginx", "1/1");
}

fn write_example_files(space: &Space) {
    space.write("nginx.yaml", &deployment("nginx", 1));
    space.ok("mkdir -p shop && cp nginx.yaml shop/ && sed -i 's/app: nginx/app: shop/; s/name: nginx/name: shop/' shop/nginx.yaml");
    for file in ["member1.config", "all.config"] {
        space.ok(&format!("cp $MEMBERS/member1.config {file}"));
    }
    let named = |name: &str| policy(name, "{}").replace("name: nginx}]", "name: nobody}]");
    space.write("policies.yaml", &format!("{}---\n{}", named("nginx"), named("nginx-propagation")));
    space.write(
        "customization.yaml",
        "apiVersion: config.karmada.io/v1alpha1\nkind: ResourceInterpreterCustomization\nmetadata: {name: deploy}\nspec:\n  \
         target: {apiVersion: apps/v1, kind: Deployment}\n  customizations:\n    replicaResource:\n      luaScript: |\n        \
         function GetReplicas(observed)\n          return observed.spec.replicas, nil\n        end\n",
    );
    for copy in ["object.yaml", "tls.crt", "tls.key"] {
        space.ok(&format!("cp nginx.yaml {copy}"));
    }
}

/// Nothing is said when the reader goes, and pipes see no colour.
#[test]
fn pipes_are_treated_well() {
    let Some(space) = Space::new("pipes") else { return };
    let cut = space.run("karmadactl api-resources | head -1; echo ${PIPESTATUS[0]}");
    assert!(cut.out.starts_with("NAME") && cut.out.ends_with("\n0\n"), "{cut:?}");
    assert_eq!(cut.err, "");
    for line in [
        "karmadactl get clusters",
        "karmadactl describe cluster member1",
        "karmadactl get --help",
        "karmadactl gett",
    ] {
        let answer = space.run(line);
        assert!(!answer.out.contains('\x1b') && !answer.err.contains('\x1b'), "{answer:?}");
    }
}

/// Warnings of the server reach the user, once each.
#[test]
fn warnings_of_the_server_are_passed_on() {
    let Some(space) = Space::new("warnings") else { return };
    space.write(
        "odd.yaml",
        &deployment("nginx", 1).replace("replicas: 1", "replicas: 1\n  colour: blue"),
    );
    let strict = space.run("karmadactl create -f odd.yaml");
    assert!(strict.code == 1 && strict.err.contains("unknown field \"spec.colour\""), "{strict:?}");
    let told = space.run("karmadactl create -f odd.yaml --validate=warn");
    assert_eq!(
        (told.out.as_str(), told.err.as_str(), told.code),
        ("deployment.apps/nginx created\n", "Warning: unknown field \"spec.colour\"\n", 0)
    );
}

#[test]
fn what_the_files_no_longer_have_is_pruned() {
    let Some(space) = Space::new("prune") else { return };
    space.ok("mkdir all");
    for name in ["one", "two"] {
        space.write(
            &format!("all/{name}.yaml"),
            &format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, labels: {{set: a}}}}\n"
            ),
        );
    }
    space.ok("kubectl create cm by-hand && kubectl label cm by-hand set=a");
    space.ok("karmadactl apply -f all --prune -l set=a");
    space.ok("rm all/two.yaml");
    let refused = space.run("karmadactl apply -f all --prune");
    assert!(
        refused.code == 1 && refused.err.contains("without explicitly passing --all"),
        "{refused:?}"
    );
    assert_eq!(
        space.ok("karmadactl apply -f all --prune -l set=a --prune-allowlist core/v1/ConfigMap --dry-run=client"),
        "configmap/one unchanged (dry run)\nconfigmap/two pruned (dry run)\n"
    );
    assert_eq!(
        space.ok("karmadactl apply -f all --prune -l set=a"),
        "configmap/one unchanged\nconfigmap/two pruned\n"
    );
    assert_eq!(space.ok("kubectl get cm -l set=a -o name"), "configmap/by-hand\nconfigmap/one\n");
}

/// `-f` takes an address, and follows where it points.
#[test]
fn files_are_read_from_addresses() {
    let Some(space) = Space::new("addresses") else { return };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("listen");
    let address = listener.local_addr().expect("have an address");
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: far}\n";
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut lines = BufReader::new(stream.try_clone().expect("a second handle")).lines();
            let request = lines.next().and_then(Result::ok).unwrap_or_default();
            while lines.next().and_then(Result::ok).is_some_and(|line| !line.is_empty()) {}
            let answer = match request.split(' ').nth(1).unwrap_or_default() {
                "/far.yaml" => {
                    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
                }
                "/moved.yaml" => {
                    "HTTP/1.1 302 Found\r\nlocation: /far.yaml\r\ncontent-length: 0\r\n\r\n"
                        .to_owned()
                }
                _ => "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned(),
            };
            // Whoever asked may have gone.
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    assert_eq!(
        space.ok(&format!("karmadactl apply -f http://{address}/far.yaml")),
        "configmap/far created\n"
    );
    assert_eq!(
        space.ok(&format!("karmadactl apply -f http://{address}/moved.yaml")),
        "configmap/far unchanged\n"
    );
    let missing = space.run(&format!("karmadactl apply -f http://{address}/nosuch.yaml"));
    assert_eq!(
        missing.err,
        format!(
            "error: unable to read URL \"http://{address}/nosuch.yaml\": server reported 404 Not Found\n"
        )
    );
}

#[test]
fn a_cron_job_is_run_now() {
    let Some(space) = Space::new("cron") else { return };
    space.ok("karmadactl create cronjob nightly --image busybox --schedule '0 3 * * *' -- tidy up");
    assert_eq!(
        space.ok("karmadactl create job now --from cronjob/nightly"),
        "job.batch/now created\n"
    );
    assert_eq!(
        space.ok("kubectl get job now -o jsonpath='{.spec.template.spec.containers[0].command} {.metadata.ownerReferences[0].name}'"),
        "[\"tidy\",\"up\"] nightly"
    );
}

/// What is slow is told on a terminal, and the line is gone when the answer is there.
#[test]
fn a_wait_is_told_on_a_terminal_only() {
    let Some(space) = Space::new("progress") else { return };
    space.ok("kubectl create cm kept && kubectl patch cm kept --type merge -p '{\"metadata\":{\"finalizers\":[\"example.com/keep\"]}}'");
    let release = |when: &str| {
        format!(
            "({when}; kubectl patch cm kept --type merge -p '{{\"metadata\":{{\"finalizers\":null}}}}') >/dev/null 2>&1 &"
        )
    };
    // It is let go once the line was seen, and after a long while in any case.
    let told = "waiting for the end of configmap/kept";
    let seen = format!("for _ in $(seq 3000); do grep -q '{told}' seen && break; sleep 0.1; done");
    let on_terminal = space.run(&format!(
        "{} script -qfec 'karmadactl delete cm kept' seen < /dev/null",
        release(&seen)
    ));
    assert!(on_terminal.out.contains(told), "{on_terminal:?}");
    space.ok("kubectl create cm kept && kubectl patch cm kept --type merge -p '{\"metadata\":{\"finalizers\":[\"example.com/keep\"]}}'");
    let in_pipe = space.run(&format!("{} karmadactl delete cm kept", release("sleep 3")));
    assert_eq!(
        (in_pipe.out.as_str(), in_pipe.err.as_str()),
        ("configmap \"kept\" deleted from progress namespace\n", "")
    );
}

/// Secrets stay where they are: in descriptions of Secrets and of the Works that carry them.
#[test]
fn no_description_prints_a_secret() {
    let Some(space) = Space::new("secrets") else { return };
    space.ok("kubectl create secret generic s --from-literal=password=tell-nobody");
    space.ok(
        "karmadactl get secret s -o yaml > s.yaml && karmadactl apply -f s.yaml --cluster member1",
    );
    space.until("kubectl --kubeconfig $MEMBERS/member1.config get secret s -o name", |out| {
        !out.is_empty()
    });
    let hidden = ["tell-nobody", "dGVsbC1ub2JvZHk="];
    for line in [
        "karmadactl describe secret s",
        "karmadactl describe work -n karmada-es-member1",
        "karmadactl why secret/s",
        "karmadactl why secret/s -o yaml",
        "karmadactl describe secret -n karmada-cluster",
    ] {
        let text = space.ok(line);
        assert!(hidden.iter().all(|part| !text.contains(part)), "{line} prints it:\n{text}");
    }
    let sizes = space.ok("karmadactl describe secret s");
    assert!(sizes.contains("password:  11 bytes"), "{sizes}");
}

/// Clusters are kept from new workloads, and let in again.
// Shows: MISC-2
#[test]
fn clusters_are_cordoned_and_tainted() {
    let Some((space, _clusters)) = Space::exclusive("cordon") else { return };
    for (line, expected) in [
        ("karmadactl cordon member1", "member1 cluster cordoned\n"),
        ("karmadactl cordon member1", "member1 cluster already cordoned\n"),
        (
            "kubectl get cluster member1 -o jsonpath='{.spec.taints[?(@.key==\"cluster.karmada.io/unschedulable\")].effect}'",
            "NoSchedule",
        ),
        ("karmadactl uncordon member1", "member1 cluster uncordoned\n"),
        (
            "karmadactl taint clusters member1 dedicated=special:NoSchedule",
            "cluster/member1 tainted\n",
        ),
        ("karmadactl taint clusters member1 dedicated:NoSchedule-", "cluster/member1 untainted\n"),
    ] {
        assert_eq!(space.ok(line), expected, "{line}");
    }
}

/// The whole story of one object, from those who decided, for people and for programs.
#[test]
fn the_whole_story_is_told_on_one_screen() {
    let Some(space) = Space::new("why") else { return };
    space.write("app.yaml", &deployment("nginx", 2));
    space.ok("karmadactl apply -f app.yaml --cluster member1");
    space.until("karmadactl why deploy/nginx", |out| out.contains("nothing is being waited for"));
    let why = space.ok("karmadactl why deploy/nginx");
    for part in [
        "Deployment why/nginx\n",
        "claimed by PropagationPolicy why/nginx-",
        "- member2, member3: cluster(s) did not match the placement cluster affinity constraint (ClusterAffinity)",
        "+ member1: score ",
        "-> 2 replicas",
        "duplicated of 2: member1 2",
        "member1: applied, healthy, 2/2 ready",
    ] {
        assert!(why.contains(part), "no {part:?} in\n{why}");
    }
    assert!(why.lines().count() <= 24, "{why}");
    // What the command says is what the API says.
    let mut told: karmada_apimachinery::Value = serde_json::from_str(
        &space.ok("kubectl get --raw /apis/work.karmada.io/v1alpha2/namespaces/why/resourcebindings/nginx-deployment/explanation"),
    )
    .unwrap();
    let mut ours: karmada_apimachinery::Value =
        serde_json::from_str(&space.ok("karmadactl why deploy/nginx -o json")).unwrap();
    assert_eq!(ours["delivery"][0]["cluster"], "member1");
    for own in ["delivery", "waitingFor", "deliveries"] {
        ours.as_object_mut().unwrap().remove(own);
        told.as_object_mut().unwrap().remove(own);
    }
    assert_eq!(ours, told);
    assert!(
        space.ok("karmadactl why deploy/nginx -o yaml").contains("subject: Deployment why/nginx")
    );
    let one = space.ok("karmadactl why deploy/nginx -C member2");
    assert!(one.contains("- member2: ") && !one.contains("applied"), "{one}");
    assert_eq!(
        steady(&space.ok("karmadactl why-not deploy/nginx -C member2"))
            .lines()
            .take(2)
            .collect::<Vec<_>>(),
        [
            "Deployment why/nginx is not placed in member2:",
            " - cluster(s) did not match the placement cluster affinity constraint (ClusterAffinity)"
        ]
    );
    let as_json = space.ok("karmadactl why-not deploy/nginx -C member2 -o json");
    assert!(as_json.contains("\"rejectedBy\""), "{as_json}");
}
