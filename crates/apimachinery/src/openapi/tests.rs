use crate::json;

use super::*;
use crate::schema::Schema;

fn definitions() -> Definitions {
    Definitions::parse(&json!({
        "io.k8s.api.apps.v1.Deployment": {"type": "object", "properties": {
            "metadata": {"$ref": "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "default": {}},
        }},
        "io.k8s.api.apps.v1.DeploymentList": {"type": "object"},
        "io.k8s.api.autoscaling.v1.Scale": {"type": "object"},
        "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {"type": "object", "properties": {
            "owners": {"type": "array", "items": {"$ref": "io.k8s.apimachinery.pkg.apis.meta.v1.Owner"}},
        }},
        "io.k8s.apimachinery.pkg.apis.meta.v1.Owner": {"type": "object"},
        "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta": {"type": "object"},
        "io.k8s.apimachinery.pkg.apis.meta.v1.Patch": {"type": "object"},
        "io.k8s.apimachinery.pkg.apis.meta.v1.Status": {"type": "object"},
        "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions": {"type": "object"},
        "io.k8s.api.core.v1.Unused": {"type": "object"},
    }))
    .expect("are schemas")
}

fn deployments() -> ResourceDoc<'static> {
    ResourceDoc {
        gvk: Gvk::new("apps", "v1", "Deployment"),
        plural: "deployments",
        namespaced: true,
        verbs: vec![
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch",
        ],
        subresources: vec![SubresourceDoc {
            name: "scale",
            gvk: Gvk::new("autoscaling", "v1", "Scale"),
            verbs: vec!["get", "patch", "update"],
            definition: Some("io.k8s.api.autoscaling.v1.Scale"),
        }],
        schema: SchemaDoc::Definition("io.k8s.api.apps.v1.Deployment"),
    }
}

#[test]
fn clients_find_what_they_look_for_in_a_document() {
    let definitions = definitions();
    let document = document_v3(&GroupVersion::new("apps", "v1"), &[deployments()], &definitions);
    let object = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}";
    let patch = &document["paths"][object]["patch"];
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({"group": "apps", "version": "v1", "kind": "Deployment"})
    );
    assert_eq!(patch["operationId"], "patchAppsV1NamespacedDeployment");
    let names: Vec<&Value> =
        patch["parameters"].as_array().into_iter().flatten().map(|p| &p["name"]).collect();
    assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"]);
    assert!(
        patch["requestBody"]["content"].get("application/strategic-merge-patch+json").is_some()
    );
    let paths = document["paths"].as_object().map(|p| p.keys().cloned().collect::<Vec<_>>());
    assert_eq!(
        paths.unwrap_or_default(),
        [
            "/apis/apps/v1/",
            "/apis/apps/v1/deployments",
            "/apis/apps/v1/namespaces/{namespace}/deployments",
            "/apis/apps/v1/namespaces/{namespace}/deployments/{name}",
            "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale",
        ]
    );
    let schemas = &document["components"]["schemas"];
    assert!(schemas.get("io.k8s.apimachinery.pkg.apis.meta.v1.Owner").is_some());
    assert!(schemas.get("io.k8s.api.core.v1.Unused").is_none());
    assert_eq!(
        schemas["io.k8s.api.apps.v1.Deployment"]["properties"]["metadata"],
        json!({"allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}],
            "default": {}})
    );
}

#[test]
fn custom_resources_offer_no_strategic_merge() {
    let schema = Schema::parse(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "description": "the wish", "nullable": true,
            "anyOf": [{"required": ["a"]}]},
    }}))
    .expect("is a schema");
    let things = ResourceDoc {
        gvk: Gvk::new("shop.example.com", "v1", "Thing"),
        plural: "things",
        namespaced: false,
        verbs: vec!["get", "list", "patch", "watch"],
        subresources: Vec::new(),
        schema: SchemaDoc::Custom(&schema),
    };
    let definitions = definitions();
    let gv = GroupVersion::new("shop.example.com", "v1");
    let v3 = document_v3(&gv, std::slice::from_ref(&things), &definitions);
    let patch = &v3["paths"]["/apis/shop.example.com/v1/things/{name}"]["patch"];
    assert!(
        patch["requestBody"]["content"].get("application/strategic-merge-patch+json").is_none()
    );
    let name = "com.example.shop.v1.Thing";
    let component = &v3["components"]["schemas"][name];
    assert_eq!(component["properties"]["spec"]["description"], "the wish");
    assert_eq!(component["x-kubernetes-group-version-kind"][0]["kind"], "Thing");
    let v2 = document_v2(&[things], &definitions, "v1.36.0");
    let spec = &v2["definitions"][name]["properties"]["spec"];
    assert_eq!(spec, &json!({"type": "object", "description": "the wish"}));
}

#[test]
fn the_index_points_to_hashed_documents() {
    assert_eq!(
        index([("apis/apps/v1", "AB")]),
        json!({"paths": {"apis/apps/v1": {"serverRelativeURL": "/openapi/v3/apis/apps/v1?hash=AB"}}})
    );
}

#[test]
fn the_protobuf_form_names_paths_and_definitions() {
    let document = document_v2(&[deployments()], &definitions(), "v1.36.0");
    let bytes = encode_v2(&document);
    assert!(bytes.starts_with(b"\x0a\x032.0\x12"));
    for text in
        ["/apis/apps/v1/deployments", "io.k8s.api.apps.v1.Deployment", "x-kubernetes-action"]
    {
        let found = bytes.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(found, "{text} is missing");
    }
}
