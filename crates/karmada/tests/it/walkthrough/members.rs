//! The way into members through the control plane: every command that has one, on simulated members.

use super::shell::{Space, Terminal, deployment, steady};

/// A namespace with a workload in one member.
fn with_workload(name: &str) -> Option<Space> {
    let space = Space::new(name)?;
    space.write("app.yaml", &deployment("nginx", 2));
    space.ok("karmadactl apply -f app.yaml --cluster member1");
    space.ready("nginx", "2/2");
    Some(space)
}

const IN_MEMBER: &str = "--operation-scope members --cluster member1";

// Shows: MISC-2
#[test]
fn objects_of_members_are_listed_watched_and_printed() {
    let Some(space) = with_workload("m-get") else { return };
    space.until_it_prints(
        "karmadactl get pods --operation-scope members -C member1,member2",
        "NAME CLUSTER READY STATUS RESTARTS AGE\nnginx-POD member1 1/1 Running 0 AGE\nnginx-POD member1 1/1 Running 0 AGE",
    );
    let wide = space.ok("karmadactl get deploy,rs --operation-scope members -o wide");
    assert!(
        wide.contains("deployment.apps/nginx   member1") && wide.contains("replicaset.apps/nginx-"),
        "{wide}"
    );
    let names = space.ok("karmadactl get deploy --operation-scope all -o name");
    assert_eq!(names, "deployment.apps/nginx\ndeployment.apps/nginx\n");
    let template = "{{range .items}}{{index .metadata.annotations \"resource.karmada.io/cached-from-cluster\"}} {{.metadata.name}}{{\"\\n\"}}{{end}}";
    let listed = space.ok(&format!(
        "karmadactl get deploy --operation-scope members -o go-template='{template}'"
    ));
    assert_eq!(listed, "member1 nginx\n");
    let sorted = space.ok(
        "karmadactl get nodes --operation-scope members --sort-by={.metadata.name} -o custom-columns=N:.metadata.name --no-headers",
    );
    assert_eq!(sorted.lines().count(), 9, "{sorted}");
    let watch = "exec karmadactl get deploy --operation-scope members -w --output-watch-events";
    let watched = space.follow(watch, "ADDED");
    assert!(steady(&watched).contains("ADDED nginx member1 2/2"), "{watched}");
    let nothing = space.run("karmadactl get ingress --operation-scope members");
    assert_eq!(
        (nothing.err.as_str(), nothing.code),
        ("No resources found in m-get namespace.\n", 0)
    );
}

// Shows: MISC-2
#[test]
fn logs_are_read_through_the_control_plane() {
    let Some(space) = with_workload("m-logs") else { return };
    let pod = space.ok("kubectl --kubeconfig $MEMBERS/member1.config get pods -o jsonpath='{.items[0].metadata.name}'");
    let direct = space.ok(&format!("kubectl --kubeconfig $MEMBERS/member1.config logs {pod}"));
    // It grows while it is read.
    let ours = space.ok(&format!("karmadactl logs {pod} -C member1"));
    assert!(direct.starts_with("Starting nginx") && ours.starts_with(&direct), "{direct}{ours}");
    let last = space.ok(&format!("karmadactl logs {pod} -C member1 --tail 1 --timestamps"));
    assert_eq!(last.lines().count(), 1, "{last}");
    let chosen = space.run("karmadactl logs deployment/nginx -C member1 --tail=1");
    assert!(
        chosen.err.starts_with("Found 2 pods, using pod/nginx-") && chosen.code == 0,
        "{chosen:?}"
    );
    let all = space.ok("karmadactl logs -l app=nginx -C member1 --prefix --tail=1");
    assert!(
        all.lines().all(|line| line.starts_with("[pod/nginx-")) && all.lines().count() == 2,
        "{all}"
    );
    let missing = space.run("karmadactl logs nosuch -C member1");
    assert_eq!(
        (missing.err.as_str(), missing.code),
        ("Error from server (NotFound): pods \"nosuch\" not found in namespace \"m-logs\"\n", 1)
    );
    let wrong = space.run(&format!("karmadactl logs {pod} -C member1 -c ngin"));
    assert_eq!(
        wrong.err,
        format!("error: container ngin is not valid for pod {pod} (did you mean \"nginx\"?)\n")
    );
}

// Shows: MISC-2
#[test]
fn commands_run_in_containers_of_members() {
    let Some(space) = with_workload("m-exec") else { return };
    let pod = space.ok("kubectl --kubeconfig $MEMBERS/member1.config get pods -o jsonpath='{.items[0].metadata.name}'");
    assert_eq!(
        space.ok(&format!("karmadactl exec {pod} {IN_MEMBER} -- hostname")),
        format!("{pod}\n")
    );
    assert_eq!(
        space.ok("karmadactl exec deploy/nginx -s members -C member1 -- echo hello world"),
        "hello world\n"
    );
    // Stdin goes there, and the exit code comes back.
    assert_eq!(
        space
            .ok(&format!("echo 'echo from a script' | karmadactl exec -i {pod} {IN_MEMBER} -- sh")),
        "from a script\n"
    );
    let failed = space.run(&format!("karmadactl exec {pod} {IN_MEMBER} -- sh -c 'exit 7'"));
    assert_eq!((failed.code, failed.err.as_str()), (7, "command terminated with exit code 7\n"));
    // On a terminal that is none, a wish for one is passed over.
    let no_terminal =
        space.run(&format!("karmadactl exec -it {pod} {IN_MEMBER} -- echo a < /dev/null"));
    assert_eq!(no_terminal.out, "a\n", "{no_terminal:?}");
    assert!(no_terminal.err.contains("Unable to use a TTY"), "{no_terminal:?}");
    // kubectl does the same through the proxy's address.
    let server =
        space.ok("kubectl config view --minify -o jsonpath='{.clusters[0].cluster.server}'");
    let through = format!("{server}/apis/cluster.karmada.io/v1alpha1/clusters/member1/proxy");
    assert_eq!(
        space.ok(&format!("kubectl --server {through} get pod {pod} -o name")),
        format!("pod/{pod}\n")
    );
    let none = space.run(&format!("karmadactl exec {pod} -- date"));
    assert!(none.code == 1 && none.err.contains("not found"), "{none:?}");
}

/// On a terminal every key goes to the container, and the terminal is as before however it ends.
#[test]
fn a_terminal_is_given_to_a_container_and_taken_back() {
    let Some(space) = with_workload("m-tty") else { return };
    let pod = space.ok("kubectl --kubeconfig $MEMBERS/member1.config get pods -o jsonpath='{.items[0].metadata.name}'");
    let exec = |pod: &str| format!("karmadactl exec -it {pod} {IN_MEMBER} -- sh");
    // What is typed, on a terminal of its own, around a look at the terminal before and after.
    let on_terminal = |name: &str, commands: &str, typed: &str| {
        let script = format!("stty -g > {name}.before\n{commands}\nstty -g > {name}.after\n");
        space.write(&format!("{name}.sh"), &script);
        // Nothing more is typed, but nobody leaves either.
        let line = format!(
            "(printf '{typed}'; timeout 300 bash -c 'until [ -s {name}.after ]; do sleep 0.05; done') | timeout 300 script -qec 'bash {name}.sh' /dev/null"
        );
        let shown = space.run(&line).out;
        let [before, after] =
            ["before", "after"].map(|when| space.ok(&format!("cat {name}.{when}")));
        assert_eq!(before, after, "{name} left the terminal otherwise: {shown}");
        shown
    };
    let shown =
        on_terminal("ends", &format!("{}; echo code $?", exec(&pod)), r"hostname\rexit 5\r");
    assert!(shown.contains(&format!("{pod}\r\n/ # ")) && shown.contains("code 5"), "{shown:?}");
    let shown = on_terminal("fails", &format!("{}; echo code $?", exec("nobody")), "");
    assert!(shown.contains("\"nobody\" not found") && shown.contains("code 1"), "{shown:?}");
    let killed = format!(
        "{} < /dev/tty & until stty -a | grep -q -- -icanon; do sleep 0.05; done\nkill %1; wait %1; echo code $?",
        exec(&pod)
    );
    let shown = on_terminal("killed", &killed, "");
    assert!(shown.contains("code 143"), "{shown:?}");
}

#[test]
fn a_container_of_a_member_is_attached_to() {
    let Some(space) = with_workload("m-attach") else { return };
    let pod = space.ok("kubectl --kubeconfig $MEMBERS/member1.config get pods -o jsonpath='{.items[0].metadata.name}'");
    // A server that goes on is left by whoever has seen enough.
    let attached = space.run(&format!("timeout -s INT 5 karmadactl attach {pod} {IN_MEMBER}"));
    assert_eq!(attached.err, "", "{attached:?}");
}

// Shows: MISC-2
#[test]
fn members_are_described_and_explained() {
    let Some(space) = with_workload("m-describe") else { return };
    let pod = space.ok("kubectl --kubeconfig $MEMBERS/member1.config get pods -o jsonpath='{.items[0].metadata.name}'");
    // The same as kubectl says about the member itself, as far as it says it on this machine.
    let ours = space.ok(&format!("karmadactl describe pod {pod} {IN_MEMBER} --show-events=false"));
    for line in [
        "Status:           Running",
        "Service Account:  default",
        "Ready:          True",
        "QoS Class:",
    ] {
        assert!(ours.contains(line), "no {line:?} in\n{ours}");
    }
    let node = space.ok("karmadactl describe node member1-node-1 -s members -C member1");
    assert!(node.contains("Non-terminated Pods:") && node.contains("KubeletReady"), "{node}");
    let deploy = space.ok(&format!("karmadactl describe deploy nginx {IN_MEMBER}"));
    assert!(
        deploy.contains("NewReplicaSet:   nginx-") && !deploy.contains("Propagation:"),
        "{deploy}"
    );
    space.ok("kubectl --kubeconfig $MEMBERS/member1.config create secret generic s --from-literal=password=tell-nobody");
    let secret = space.ok(&format!("karmadactl describe secret s {IN_MEMBER}"));
    assert!(secret.contains("password:  11 bytes") && !secret.contains("tell-nobody"), "{secret}");
    let explained = space.ok(&format!("karmadactl explain pod.spec.containers {IN_MEMBER}"));
    assert!(explained.contains("KIND:       Pod"), "{explained}");
    let kinds = space.ok("karmadactl api-resources -s members --cluster member1 -o name");
    assert!(kinds.contains("deployments.apps") && !kinds.contains("karmada.io"), "{kinds}");
    let versions = space.ok("karmadactl api-versions -s members --cluster member1");
    assert!(versions.lines().any(|line| line == "apps/v1"), "{versions}");
}

// Shows: MISC-2
#[test]
fn use_of_members_is_shown() {
    let Some(space) = with_workload("m-top") else { return };
    let nodes = space.ok("karmadactl top node --clusters member1");
    assert!(
        steady(&nodes).starts_with(
            "NAME CLUSTER CPU(cores) CPU% MEMORY(bytes) MEMORY%\nmember1-node-1 member1"
        ),
        "{nodes}"
    );
    let pods =
        space.until("karmadactl top pod -C member1", |out| out.matches("nginx-").count() == 2);
    assert!(
        steady(&pods).starts_with("NAME CLUSTER CPU(cores) MEMORY(bytes)\nnginx-POD member1"),
        "{pods}"
    );
    let wrong = space.run("karmadactl top pod --sort-by disk");
    assert!(
        wrong.code == 1 && wrong.err.contains("--sort-by accepts only cpu or memory"),
        "{wrong:?}"
    );
}

/// A workload that runs in a member is taken under the control plane's care, with what it needs.
// Shows: MISC-2
#[test]
fn a_workload_is_promoted_with_its_dependencies() {
    let Some(space) = Space::new("m-promote") else { return };
    space.until("kubectl --kubeconfig $MEMBERS/member1.config get ns m-promote -o name", |out| {
        !out.is_empty()
    });
    let app = deployment("nginx", 1)
        .replace("image: nginx}", "image: nginx, envFrom: [{configMapRef: {name: settings}}]}");
    space.write("app.yaml", &app);
    space.ok("kubectl --kubeconfig $MEMBERS/member1.config create cm settings --from-literal=a=b");
    space.ok("kubectl --kubeconfig $MEMBERS/member1.config create -f app.yaml");
    let uid = "kubectl --kubeconfig $MEMBERS/member1.config get deploy nginx -o jsonpath='{.metadata.uid}'";
    let before = space.ok(uid);
    let printed = space.ok("karmadactl promote deployment nginx -C member1 -o yaml");
    assert!(
        printed.contains("kind: PropagationPolicy")
            && printed.contains("conflict-resolution: overwrite"),
        "{printed}"
    );
    assert_ne!(space.run("kubectl get deploy nginx").code, 0, "printing promotes nothing");
    space.ok("karmadactl promote deployment nginx -C member1 --dry-run");
    assert_ne!(space.run("kubectl get deploy nginx").code, 0, "a dry run promotes nothing");
    let promoted = space.ok("karmadactl promote deployment nginx -C member1 -d");
    assert!(
        promoted.contains("ResourceTemplate (m-promote/nginx) is created successfully\n")
            && promoted.contains("Dependency resource \"/v1, Resource=configmaps\"(m-promote/settings) is promoted successfully\n")
            || promoted.contains("Dependency resource \"v1, Resource=configmaps\"(m-promote/settings) is promoted successfully\n"),
        "{promoted}"
    );
    assert!(
        promoted.ends_with(
            "Resource \"apps/v1, Resource=deployments\"(m-promote/nginx) is promoted successfully\n"
        ),
        "{promoted}"
    );
    space.until("karmadactl get deploy --operation-scope members", |out| {
        steady(out).ends_with("nginx member1 1/1 1 1 AGE Y")
    });
    assert_eq!(space.ok(uid), before, "the workload was never replaced");
    let again = space.run("karmadactl promote deployment nginx -C member1");
    assert!(again.code == 0 && again.err.contains("already exist"), "{again:?}");
}
