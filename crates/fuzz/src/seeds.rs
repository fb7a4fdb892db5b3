//! Inputs to start from: each reaches far into its target.

use karmada_apimachinery::patch::merge;
use karmada_apimachinery::{Value, json};

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn documents(documents: impl IntoIterator<Item = Value>) -> Vec<Vec<u8>> {
    documents.into_iter().map(|document| document.to_string().into_bytes()).collect()
}

fn fleet() -> Value {
    let cluster = |name: &str, region: &str, taints: Value| {
        json!({
            "metadata": {"name": name, "labels": {"env": "test"}},
            "spec": {
                "syncMode": "Push", "provider": "p", "region": region, "zones": ["z1", "z2"], "taints": taints,
                "resourceModels": [
                    {"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "1"}]},
                    {"grade": 1, "ranges": [{"name": "cpu", "min": "1", "max": "9"}]},
                ],
            },
            "status": {
                "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}],
                "resourceSummary": {
                    "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"},
                    "allocated": {"cpu": "1500m", "pods": "3"}, "allocating": {"cpu": "1"},
                    "allocatableModelings": [{"grade": 0, "count": 2}, {"grade": 1, "count": 3}],
                },
            },
        })
    };
    json!([
        cluster("m1", "r1", json!([])),
        cluster("m2", "r1", json!([{"key": "k", "value": "v", "effect": "NoSchedule"}])),
        cluster("m3", "r2", json!([])),
    ])
}

pub(crate) fn schedule() -> Vec<Vec<u8>> {
    let spread = |field: &str| {
        json!([
            {"spreadByField": field, "minGroups": 1, "maxGroups": 2},
            {"spreadByField": "cluster", "minGroups": 1, "maxGroups": 3},
        ])
    };
    let divided = |preference: &str, weights: Value| {
        json!({
            "replicaSchedulingType": "Divided", "replicaDivisionPreference": preference, "weightPreference": weights,
        })
    };
    let dynamic = json!({"dynamicWeight": "AvailableReplicas"});
    let fixed = json!({"staticWeightList": [
        {"targetCluster": {"clusterNames": ["m1"]}, "weight": 2},
        {"targetCluster": {"labelSelector": {"matchLabels": {"env": "test"}}}, "weight": 1},
    ]});
    let groups = json!([
        {"affinityName": "first", "clusterNames": ["m1"], "overflowAffinities": [{"affinityName": "more", "exclude": ["m2"]}]},
        {"affinityName": "second", "fieldSelector": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]}},
    ]);
    let placements = [
        json!({"spreadConstraints": spread("region"), "replicaScheduling": divided("Aggregated", Value::Null)}),
        json!({"spreadConstraints": spread("zone"), "replicaScheduling": divided("Weighted", dynamic.clone())}),
        json!({"clusterAffinities": groups, "replicaScheduling": divided("Weighted", dynamic)}),
        json!({"clusterAffinity": {"exclude": ["m3"]}, "replicaScheduling": divided("Weighted", fixed),
            "clusterTolerations": [{"key": "k", "operator": "Exists"}]}),
        json!({"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]}),
    ];
    documents(placements.into_iter().map(|placement| {
        json!({
            "spec": {
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "ns", "name": "web", "uid": "u"},
                "replicas": 7, "placement": placement,
                "replicaRequirements": {"resourceRequest": {"cpu": "500m", "memory": "1Gi"}},
                "components": [{"name": "a", "replicas": 2, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}}],
                "clusters": [{"name": "m1", "replicas": 2}, {"name": "gone", "replicas": 1}],
                "gracefulEvictionTasks": [{"fromCluster": "m3", "reason": "TaintUntolerated", "producer": "TaintManager"}],
                "rescheduleTriggeredAt": "2026-01-01T00:00:01Z",
            },
            "status": {"lastScheduledTime": "2026-01-01T00:00:00Z", "schedulerObservingAffinityName": "first"},
            "clusters": fleet(), "applied": "{}", "accurate": {"m1": 4}, "assumed": {"m1": 1}, "peers": [["m1"]],
            "gates": true,
        })
    }))
}

pub(crate) fn workload() -> Value {
    let pod = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "serviceAccountName": "robot", "imagePullSecrets": [{"name": "pull"}], "nodeSelector": {"a": "b"},
            "containers": [{
                "name": "c", "image": "registry.example/team/web:v1", "command": ["run"], "args": ["a", "b"],
                "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}},
                "envFrom": [{"configMapRef": {"name": "settings"}}],
                "env": [{"name": "x", "valueFrom": {"secretKeyRef": {"name": "pass", "key": "k"}}}],
            }],
            "volumes": [{"name": "v", "configMap": {"name": "files"}}, {"name": "w", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    });
    let role = json!({"replicas": 2, "template": pod});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "web", "namespace": "ns", "generation": 3, "labels": {"app": "web"},
            "annotations": {"resourcetemplate.karmada.io/generation": "3"},
        },
        "data": {"config.json": "{\"a\":{\"b\":1}}", "config.yaml": "a:\n  b: 1\n"},
        "spec": {
            "replicas": 3, "parallelism": 2, "completions": 4, "suspend": false, "type": "LoadBalancer",
            "selector": {"matchLabels": {"app": "web"}}, "template": pod,
            "jobTemplate": {"spec": {"template": pod}}, "tls": [{"secretName": "cert"}],
            "tasks": [{"name": "t", "minAvailable": 2, "replicas": 3, "template": pod}],
            "jobManager": {"resource": {"cpu": 1, "memory": "2048m"}}, "taskManager": {"resource": {"cpu": 1, "memory": "1Gi"}},
            "job": {"parallelism": 10}, "flinkConfiguration": {"taskmanager.numberOfTaskSlots": "4"},
            "driver": {"cores": 1, "memory": "1g"}, "executor": {"cores": 2, "memory": "512m", "instances": 2},
            "pytorchReplicaSpecs": {"Worker": role}, "tfReplicaSpecs": {"PS": role}, "mpiReplicaSpecs": {"Launcher": role},
            "headGroupSpec": {"template": pod}, "workerGroupSpecs": [{"groupName": "g", "replicas": 2, "template": pod}],
            "rayClusterSpec": {"headGroupSpec": {"template": pod}, "workerGroupSpecs": [{"replicas": 1, "template": pod}]},
            "rayClusterConfig": {"headGroupSpec": {"template": pod}, "workerGroupSpecs": [{"replicas": 1, "template": pod}]},
            "secretRef": {"name": "s"}, "verify": {"secretRef": {"name": "k"}}, "serviceAccountName": "flux",
            "containers": pod["spec"]["containers"],
        },
        "status": status(),
    })
}

fn status() -> Value {
    json!({
        "observedGeneration": 3, "generation": 3, "resourceTemplateGeneration": 3, "replicas": 3, "readyReplicas": 3,
        "updatedReplicas": 3, "availableReplicas": 3, "phase": "Running", "active": 1, "succeeded": 1, "failed": 0,
        "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:01:00Z",
        "conditions": [{"type": "Ready", "status": "True", "reason": "Succeeded", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "loadBalancer": {"ingress": [{"ip": "1.1.1.1", "ports": [{"port": 80, "protocol": "TCP"}]}]},
        "containerStatuses": [{"name": "c", "ready": true, "state": {"running": {}}}],
        "disruptedPods": {"p": "2026-01-01T00:00:00Z"}, "currentHealthy": 1, "desiredHealthy": 1,
        "state": {"phase": "Running"}, "taskStatusCount": {"t": {"phase": {"Running": 1}}}, "runningDuration": "1m2s",
        "jobStatus": "RUNNING", "jobDeploymentStatus": "Running", "jobManagerDeploymentStatus": "READY",
        "lifecycleState": "STABLE", "applicationState": {"state": "RUNNING"}, "executorState": {"e": "RUNNING"},
        "replicaStatuses": {"Worker": {"active": 1}}, "containerState": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        "desiredCPU": "1", "desiredMemory": "1Gi", "artifact": {"revision": "r"}, "ready": true, "rulecount": {"validate": 1},
        "serviceStatus": "Running", "activeServiceStatus": {"applicationStatuses": {"a": {"status": "RUNNING"}}},
    })
}

/// Every kind that somebody knows something about.
const KINDS: &[(&str, &str)] = &[
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
    ("v1", "Pod"),
    ("v1", "Service"),
    ("networking.k8s.io/v1", "Ingress"),
    ("v1", "PersistentVolume"),
    ("v1", "PersistentVolumeClaim"),
    ("policy/v1", "PodDisruptionBudget"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ("v1", "ServiceAccount"),
    ("v1", "Secret"),
    ("multicluster.x-k8s.io/v1alpha1", "ServiceImport"),
    ("apps.kruise.io/v1alpha1", "AdvancedCronJob"),
    ("apps.kruise.io/v1alpha1", "BroadcastJob"),
    ("apps.kruise.io/v1alpha1", "CloneSet"),
    ("apps.kruise.io/v1alpha1", "DaemonSet"),
    ("apps.kruise.io/v1alpha1", "SidecarSet"),
    ("apps.kruise.io/v1alpha1", "UnitedDeployment"),
    ("apps.kruise.io/v1beta1", "StatefulSet"),
    ("argoproj.io/v1alpha1", "Workflow"),
    ("batch.volcano.sh/v1alpha1", "Job"),
    ("flink.apache.org/v1beta1", "FlinkDeployment"),
    ("helm.toolkit.fluxcd.io/v2beta1", "HelmRelease"),
    ("kubeflow.org/v1", "Notebook"),
    ("kubeflow.org/v1", "PyTorchJob"),
    ("kubeflow.org/v1", "TFJob"),
    ("kubeflow.org/v2beta1", "MPIJob"),
    ("kustomize.toolkit.fluxcd.io/v1", "Kustomization"),
    ("kyverno.io/v1", "ClusterPolicy"),
    ("ray.io/v1", "RayCluster"),
    ("ray.io/v1", "RayJob"),
    ("ray.io/v1", "RayService"),
    ("source.toolkit.fluxcd.io/v1", "GitRepository"),
    ("source.toolkit.fluxcd.io/v1beta2", "HelmChart"),
    ("source.toolkit.fluxcd.io/v1beta2", "OCIRepository"),
    ("sparkoperator.k8s.io/v1beta2", "SparkApplication"),
];

pub(crate) fn interpret() -> Vec<Vec<u8>> {
    let item = |cluster: &str| json!({"clusterName": cluster, "applied": true, "health": "Healthy", "status": status()});
    documents(KINDS.iter().map(|(api_version, kind)| {
        let mut object = workload();
        object["apiVersion"] = (*api_version).into();
        object["kind"] = (*kind).into();
        json!({"object": object, "observed": object, "items": [item("m1"), item("m2")], "replicas": 5})
    }))
}

pub(crate) fn overrides() -> Vec<Vec<u8>> {
    let overriders = json!({
        "imageOverrider": [
            {"component": "Registry", "operator": "replace", "value": "other.example"},
            {"predicate": {"path": "/spec/template/spec/containers/0/image"}, "component": "Tag", "operator": "add", "value": "-rc"},
        ],
        "commandOverrider": [{"containerName": "c", "operator": "add", "value": ["x"]}],
        "argsOverrider": [{"containerName": "c", "operator": "remove", "value": ["a"]}],
        "labelsOverrider": [{"operator": "add", "value": {"p/q": "1"}}, {"operator": "remove", "value": {"app": ""}}],
        "annotationsOverrider": [{"operator": "replace", "value": {"a": "1"}}],
        "fieldOverrider": [
            {"fieldPath": "/data/config.json", "json": [{"subPath": "/a/b", "operator": "replace", "value": 2}]},
            {"fieldPath": "/data/config.yaml", "yaml": [{"subPath": "/a/c", "operator": "add", "value": [1]}]},
        ],
        "plaintext": [
            {"path": "/spec/replicas", "operator": "replace", "value": 9},
            {"path": "/spec/template/spec/volumes/-", "operator": "add", "value": {"name": "n"}},
            {"path": "/spec/template/spec/volumes/0", "operator": "remove"},
        ],
    });
    let selectors = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": {"matchLabels": {"app": "web"}}}]);
    documents([json!({
        "object": workload(), "cluster": fleet()[0],
        "namespaced": {"metadata": {"name": "op", "namespace": "ns"}, "spec": {
            "resourceSelectors": selectors,
            "overrideRules": [{"targetCluster": {"clusterNames": ["m1"]}, "overriders": overriders}],
        }},
        "cluster_scoped": {"metadata": {"name": "cop"}, "spec": {"overriders": overriders}},
    })])
}

pub(crate) fn lua() -> Vec<Vec<u8>> {
    texts(&[
        "function GetReplicas(obj)\n  kube = require('kube')\n  return obj.spec.replicas, kube.accuratePodRequirements(obj.spec.template)\nend",
        "function ReviseReplica(obj, n)\n  obj.spec.replicas = n\n  return obj\nend\nfunction Retain(d, o)\n  d.spec.paused = o.spec.paused\n  return d\nend",
        "function InterpretHealth(o)\n  for i, c in ipairs(o.status.conditions) do\n    if c.type == 'Ready' and c.status == 'True' then return true end\n  end\n  return false\nend",
        "function AggregateStatus(obj, items)\n  local n = 0\n  for i = 1, #items do n = n + items[i].status.replicas end\n  obj.status.replicas = n\n  return obj\nend",
        "function ReflectStatus(o)\n  local t = {}\n  t.a = string.format('%5.2f %s', 1.5, string.sub(o.metadata.name, 1, 1))\n  t.b = string.match('key=value', '(%w+)=(%w+)')\n  return t\nend",
        "function GetDependencies(obj)\n  kube = require('kube')\n  return kube.getPodDependencies(obj.spec.template, obj.metadata.namespace)\nend",
        "function GetComponents(o)\n  return {{name = 'a', replicas = 1}}\nend\nwhile true do local x = ('a'):byte() end",
        "local t = {} for i = 1, 1e9 do t[i] = tostring(i) .. os.date('%Y') end",
        "function InterpretHealth(o) return pcall(function() error({}) end) and select('#', unpack({1,2,3})) > 1 end",
    ])
}

/// Every example of the admission rules, accepted or refused.
pub(crate) fn admission() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../admission/tests/rules");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let tables = files.iter().map(|file| {
        let text = std::fs::read_to_string(file).unwrap();
        serde_saphyr::from_str::<Value>(&text).unwrap()
    });
    let examples = tables.flat_map(|table| {
        let base = table["base"].clone();
        let rules = table["rules"].as_array().cloned().unwrap_or_default();
        let changes =
            rules.into_iter().flat_map(|rule| [rule["refused"].clone(), rule["accepted"].clone()]);
        changes
            .filter(Value::is_object)
            .filter_map(move |change| {
                Some(json!({"object": merge::apply(&base, &change).ok()?, "old": base}))
            })
            .collect::<Vec<_>>()
    });
    documents(examples)
}

pub(crate) fn cluster() -> Vec<Vec<u8>> {
    let seeds = admission().into_iter().map(|seed| serde_json::from_slice::<Value>(&seed).unwrap());
    let mut clusters: Vec<Value> =
        seeds.filter(|seed| seed["object"]["kind"] == "Cluster").collect();
    let mut full = fleet()[0].clone();
    full["apiVersion"] = "cluster.karmada.io/v1alpha1".into();
    full["kind"] = "Cluster".into();
    clusters.push(json!({"object": full, "old": full}));
    documents(clusters)
}

pub(crate) fn conversion() -> Vec<Vec<u8>> {
    let resource = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": "ns"});
    let aggregated = json!([{"clusterName": "m1", "applied": true, "status": {"phase": "Running"}, "health": "Healthy"}]);
    documents([
        json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "metadata": {"name": "a"},
            "spec": {"resource": resource, "replicas": 2, "replicaRequirements": {"resourceRequest": {"cpu": "1"}},
                "clusters": [{"name": "m1", "replicas": 2}]},
            "status": {"conditions": [], "aggregatedStatus": aggregated}}),
        json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "ClusterResourceBinding", "metadata": {"name": "a"},
            "spec": {"resource": {"apiVersion": "v1", "kind": "Pod", "name": "p", "replicas": 2, "resourcePerReplicas": {"cpu": "1"}},
                "clusters": [{"name": "m1"}]}}),
    ])
}

pub(crate) fn json() -> Vec<Vec<u8>> {
    documents([workload()])
}

pub(crate) fn yaml() -> Vec<Vec<u8>> {
    let block = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 2\n  selector:\n    matchLabels: &l\n      app: web\n  template:\n    metadata: {labels: *l}\n    spec:\n      containers:\n      - name: c\n        image: \"a:b\"\n        args: [\"1\", '2', |-\n          x\n        ]\n";
    let mut seeds = texts(&[block, "a: 1\n---\nb: 0x1f\n", "- ? a\n  : b\n- !!str 1\n"]);
    seeds.extend(json());
    seeds
}

pub(crate) fn protobuf() -> Vec<Vec<u8>> {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": {"a": "b"}},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {}, "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]}}},
    });
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"k": "v"}});
    [deployment, map]
        .iter()
        .map(|object| karmada_kinds::schema::encode_protobuf(object).unwrap().unwrap())
        .collect()
}

pub(crate) fn json_patch() -> Vec<Vec<u8>> {
    let document = json!({"a": {"b": [1, 2]}, "c/d": "x"});
    documents([json!({"document": document, "patch": [
        {"op": "add", "path": "/a/b/-", "value": 3}, {"op": "remove", "path": "/a/b/0"},
        {"op": "replace", "path": "/c~1d", "value": null}, {"op": "move", "from": "/a/b", "path": "/e"},
        {"op": "copy", "from": "/e", "path": "/f"}, {"op": "test", "path": "/f/0", "value": 2},
    ]})])
}

pub(crate) fn merge_patch() -> Vec<Vec<u8>> {
    documents([
        json!({"document": workload(), "patch": {"spec": {"replicas": 4, "template": {"spec": {
            "containers": [{"name": "c", "image": "new"}, {"name": "d", "$patch": "delete"}],
            "$setElementOrder/containers": [{"name": "c"}], "volumes": null, "$retainKeys": ["containers"],
        }}}}}),
        json!({"document": {"metadata": {"managedFields": [{"manager": "a", "operation": "Apply", "apiVersion": "apps/v1",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]}, "spec": {"replicas": 1}},
            "patch": {"metadata": {"name": "web", "labels": {"a": "b"}}, "spec": {"replicas": 2}}}),
    ])
}

pub(crate) fn selectors() -> Vec<Vec<u8>> {
    let mut seeds = texts(&[
        "app=web,tier!=back,env in (a, b),x notin (y),z,!w,n>3,m<4",
        "metadata.name=a,spec.nodeName!=b\\,c",
        "a==b",
    ]);
    seeds.extend(documents([json!({"matchLabels": {"app": "web"}, "matchExpressions": [
        {"key": "a", "operator": "In", "values": ["b"]}, {"key": "c", "operator": "DoesNotExist"},
    ]})]));
    seeds
}

pub(crate) fn jsonpath() -> Vec<Vec<u8>> {
    texts(&[
        "{.metadata.name}{\"\\n\"}{range .spec.containers[*]}{.name}{end}",
        "{.spec.containers[?(@.name==\"a\")].ports[0:2:1].port}",
        "{..name}",
        "{['metadata']['labels'].app}",
        ".spec.containers[-1]",
    ])
}

pub(crate) fn continue_token() -> Vec<Vec<u8>> {
    texts(&[
        r#"{"v":"meta.k8s.io/v1","rv":71,"start":"default/web\u0000"}"#,
        r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"web\u0000"}"#,
        r#"{"v":"meta.k8s.io/v1","rv":1,"start":"../secrets/a"}"#,
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NzEsInN0YXJ0IjoiZGVmYXVsdC93ZWJcdTAwMDAifQ",
    ])
}

pub(crate) fn quantity() -> Vec<Vec<u8>> {
    texts(&[
        "1",
        "1500m",
        "1.5Gi",
        "0.001",
        "1e3",
        "12E6",
        "-3Ki",
        "9223372036854775807",
        "1n",
        ".5",
        "+2M",
    ])
}

pub(crate) fn cel() -> Vec<Vec<u8>> {
    texts(&[
        "self.items.exists(i, i == 1) && self.replicas > 2 || has(self.name)",
        "self.items.map(i, i).filter(i, true).size() <= 5 ? 'a' + self.name : \"b\".matches('^b$')",
        "{'a': [1, 2u, 3.0], 'b': b'x'}['a'][0] == timestamp('2026-01-01T00:00:00Z').getFullYear()",
        "quantity('1Gi').add(quantity('1')).isGreaterThan(quantity('2')) || url('http://a').getHost() == ''",
        "[[1],[2]].all(x, x.all(y, y > 0)) ? duration('1h') : duration('2h')",
    ])
}

pub(crate) fn csr() -> Vec<Vec<u8>> {
    texts(&[
        "-----BEGIN CERTIFICATE REQUEST-----\nMIHYMIGAAgEAMB4xDTALBgNVBAMMBGphbmUxDTALBgNVBAoMBGRldnMwWTATBgcq\nhkjOPQIBBggqhkjOPQMBBwNCAATzwnv8\n-----END CERTIFICATE REQUEST-----\n",
        "0\u{82}\u{1}",
    ])
}
