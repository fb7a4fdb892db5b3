use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};

use super::*;

fn service(spec: Value) -> Value {
    json!({"spec": spec, "status": {"loadBalancer": {}}})
}

fn planned(new: Value, old: Option<Value>) -> (Value, Plan) {
    let mut new = service(new);
    let old = old.map(service);
    let plan = plan(&mut new, old.as_ref(), &["IPv4"]).expect("the change is allowed");
    (new, plan)
}

#[test]
fn a_plain_service_claims_one_address_of_the_default_family() {
    let (new, plan) = planned(json!({"type": "ClusterIP", "ports": [{"port": 80}]}), None);
    assert_eq!(new["spec"]["ipFamilies"], json!(["IPv4"]));
    assert_eq!(new["spec"]["ipFamilyPolicy"], "SingleStack");
    let claim = AddressClaim { index: 0, family: "IPv4".into(), requested: None };
    assert_eq!(plan, Plan { addresses: vec![claim], ..Plan::default() });
}

#[test]
fn headless_and_external_services_claim_nothing() {
    let (headless, plan) = planned(json!({"type": "ClusterIP", "clusterIP": "None"}), None);
    assert_eq!(plan, Plan::default());
    assert_eq!(headless["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    assert_eq!(headless["spec"]["ipFamilyPolicy"], "RequireDualStack");
    let (external, plan) = planned(json!({"type": "ExternalName"}), None);
    assert_eq!(plan, Plan::default());
    assert_eq!(external.at(&["spec", "ipFamilies"]), None);
}

#[test]
fn a_changed_service_keeps_its_address_and_ports() {
    let old = json!({
        "type": "NodePort", "clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"],
        "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
        "ports": [{"name": "a", "port": 80, "nodePort": 30001}],
    });
    let new = json!({"type": "NodePort", "ports": [
        {"name": "a", "port": 81}, {"name": "b", "port": 82},
    ]});
    let (new, plan) = planned(new, Some(old));
    assert_eq!(new["spec"]["clusterIP"], "10.0.0.9");
    assert_eq!(new["spec"]["clusterIPs"], json!(["10.0.0.9"]));
    assert_eq!(new["spec"]["ports"][0]["nodePort"], 30001);
    assert!(plan.addresses.is_empty());
    assert_eq!(plan.node_ports, [PortClaim { indexes: vec![1], requested: None }]);
    assert!(plan.released_ports.is_empty());
}

#[test]
fn becoming_external_gives_everything_back() {
    let old = json!({
        "type": "NodePort", "clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"],
        "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
        "ports": [{"port": 80, "nodePort": 30001}],
    });
    let mut changed = old.clone();
    changed["type"] = json!("ExternalName");
    let (mut new, plan) = planned(changed, Some(old.clone()));
    assert_eq!(plan.released_addresses, ["10.0.0.9"]);
    assert_eq!(plan.released_ports, [30001]);
    drop_type_dependent_fields(&mut new, &service(old));
    assert_eq!(new["spec"], json!({"type": "ExternalName", "ports": [{"port": 80}]}));
}

#[test]
fn entries_of_one_port_share_a_node_port() {
    let (mut new, plan) = planned(
        json!({"type": "NodePort", "ports": [
            {"name": "t", "port": 80, "protocol": "TCP"},
            {"name": "u", "port": 80, "protocol": "UDP", "nodePort": 30005},
            {"name": "x", "port": 81},
        ]}),
        None,
    );
    assert_eq!(
        plan.node_ports,
        [
            PortClaim { indexes: vec![0, 1], requested: Some(30005) },
            PortClaim { indexes: vec![2], requested: None },
        ]
    );
    fill(&mut new, &[(0, "10.0.0.1".into())], &[(vec![0, 1], 30005), (vec![2], 30006)], None);
    assert_eq!(new["spec"]["clusterIPs"], json!(["10.0.0.1"]));
    assert_eq!(node_ports(&new), [30005, 30006]);
}

#[test]
fn local_load_balancers_claim_a_health_check_port() {
    let local = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": []});
    let (_, plan) = planned(local, None);
    assert_eq!(plan.health_check_port, Some(None));
}

#[test]
fn a_second_family_needs_a_second_pool() {
    let mut new = service(json!({"type": "ClusterIP", "ipFamilyPolicy": "RequireDualStack"}));
    let errors = plan(&mut new, None, &["IPv4"]).expect_err("there is one pool");
    assert_eq!(
        errors[0].to_string(),
        "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services"
    );
    let mut new = service(json!({"type": "ClusterIP", "ipFamilyPolicy": "PreferDualStack"}));
    let plan = plan(&mut new, None, &["IPv4", "IPv6"]).expect("there are two pools");
    assert_eq!(plan.addresses.len(), 2);
}
