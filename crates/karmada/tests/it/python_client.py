"""Uses the server as a program written against the Python client for Kubernetes would."""
import sys
import threading

from kubernetes import client, config, dynamic, watch

config.load_kube_config(config_file=sys.argv[1])
core = client.CoreV1Api()
apps = client.AppsV1Api()

core.create_namespace({"metadata": {"name": "py"}})
assert "py" in [item.metadata.name for item in core.list_namespace().items]

seen = []
listed = core.list_namespaced_config_map("py")


def follow():
    stream = watch.Watch()
    for event in stream.stream(
        core.list_namespaced_config_map, "py",
        resource_version=listed.metadata.resource_version, field_selector="metadata.name=a", timeout_seconds=300,
    ):
        seen.append((event["type"], event["object"].metadata.name))
        if event["type"] == "DELETED":
            stream.stop()


follower = threading.Thread(target=follow)
follower.start()
core.create_namespaced_config_map("py", {"metadata": {"name": "a"}, "data": {"k": "1"}})
core.patch_namespaced_config_map("a", "py", {"data": {"k": "2"}})
core.delete_namespaced_config_map("a", "py")
follower.join()
assert seen == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")], seen

deployment = apps.create_namespaced_deployment("py", {
    "metadata": {"name": "web"},
    "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "nginx"}]},
        },
    },
})
assert deployment.spec.replicas == 1
scaled = apps.patch_namespaced_deployment_scale("web", "py", {"spec": {"replicas": 3}})
assert scaled.spec.replicas == 3

dynamic_client = dynamic.DynamicClient(client.ApiClient())
secrets = dynamic_client.resources.get(api_version="v1", kind="Secret")
secrets.create(namespace="py", body={"metadata": {"name": "s"}, "stringData": {"a": "b"}})
assert secrets.get(name="s", namespace="py").data["a"] == "Yg=="

pages, token = [], None
for number in range(5):
    core.create_namespaced_config_map("py", {"metadata": {"name": f"page-{number}"}})
while True:
    page = core.list_namespaced_config_map("py", limit=2, _continue=token)
    pages.extend(item.metadata.name for item in page.items)
    token = page.metadata._continue
    if not token:
        break
assert [name for name in pages if name.startswith("page-")] == [f"page-{n}" for n in range(5)], pages

try:
    core.read_namespaced_config_map("missing", "py")
    raise AssertionError("a missing object was found")
except client.ApiException as error:
    assert error.status == 404, error

core.delete_namespace("py")
print("ok")
