//! Examples of the commands below commands, as they stand in their help.

/// The examples of a command by its path, such as `create secret generic`.
pub(crate) fn of(path: &str) -> &'static str {
    EXAMPLES.iter().find(|(own, _)| *own == path).map_or("", |(_, examples)| examples)
}

const EXAMPLES: &[(&str, &str)] = &[
    (
        "create clusterrole",
        "  # Let somebody look at pods everywhere
  karmadactl create clusterrole pod-reader --verb get,list,watch --resource pods
",
    ),
    (
        "create clusterrolebinding",
        "  # Let ada see everything
  karmadactl create clusterrolebinding ada-views --clusterrole view --user ada
",
    ),
    (
        "create configmap",
        "  # Values by hand
  karmadactl create configmap settings --from-literal=colour=blue --from-literal=size=large

  # A file, with a name that changes with its content
  karmadactl create configmap page --from-file=nginx.yaml --append-hash
",
    ),
    (
        "create cronjob",
        "  # Tidy up every night
  karmadactl create cronjob nightly --image busybox --schedule '0 3 * * *' -- tidy up
",
    ),
    (
        "create deployment",
        "  # Two copies of nginx; a policy decides where they run
  karmadactl create deployment web --image nginx --replicas 2 --port 80
",
    ),
    (
        "create job",
        "  # Run something once
  karmadactl create job once --image busybox -- date

  # Run a cron job now
  karmadactl create job now --from cronjob/nightly
",
    ),
    (
        "create namespace",
        "  # A namespace; members get it too
  karmadactl create namespace shop
",
    ),
    (
        "create poddisruptionbudget",
        "  # Keep at least one pod of nginx
  karmadactl create poddisruptionbudget nginx --selector app=nginx --min-available 1
",
    ),
    (
        "create priorityclass",
        "  # Pods that go first
  karmadactl create priorityclass first --value 1000 --description 'for the shop'
",
    ),
    (
        "create quota",
        "  # No more than ten pods
  karmadactl create quota small --hard pods=10,cpu=4
",
    ),
    (
        "create role",
        "  # Let somebody look at pods of this namespace
  karmadactl create role pod-reader --verb get,list,watch --resource pods
",
    ),
    (
        "create rolebinding",
        "  # Let ada look at pods of this namespace
  karmadactl create rolebinding ada-reads --role pod-reader --user ada
",
    ),
    (
        "create secret",
        "  # A password
  karmadactl create secret generic database --from-literal=password=secret
",
    ),
    (
        "create secret generic",
        "  # A password
  karmadactl create secret generic login --from-literal=password=secret
",
    ),
    (
        "create secret docker-registry",
        "  # What a registry wants to know
  karmadactl create secret docker-registry pull --docker-username=me --docker-password=secret
",
    ),
    (
        "create secret tls",
        "  # A certificate and its key
  karmadactl create secret tls web --cert=tls.crt --key=tls.key
",
    ),
    (
        "create service",
        "  # An address for the pods of web
  karmadactl create service clusterip web --tcp=80:8080
",
    ),
    (
        "create service clusterip",
        "  # An address inside the cluster
  karmadactl create service clusterip inner --tcp=80:8080
",
    ),
    (
        "create service externalname",
        "  # Another name for something outside
  karmadactl create service externalname database --external-name db.example.com
",
    ),
    (
        "create service loadbalancer",
        "  # An address outside
  karmadactl create service loadbalancer outer --tcp=443:8443
",
    ),
    (
        "create service nodeport",
        "  # A port of every node
  karmadactl create service nodeport each --tcp=80:8080
",
    ),
    (
        "create serviceaccount",
        "  # Somebody for pods to be
  karmadactl create serviceaccount robot
",
    ),
    (
        "create ingress",
        "  # Send requests for a host to a service
  karmadactl create ingress shop --rule='shop.example.com/*=web:80'
",
    ),
    (
        "create token",
        "  # A token of a service account, for an hour
  karmadactl create token robot --duration 1h
",
    ),
    (
        "top pod",
        "  # The containers that use most memory, in all clusters
  karmadactl top pod -A --containers --sort-by memory
",
    ),
    (
        "top node",
        "  # The nodes of member1 against their whole capacity
  karmadactl top node --clusters member1 --show-capacity
",
    ),
];
