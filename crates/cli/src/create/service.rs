//! Services and ingresses, from flags.

use karmada_apimachinery::{Map, Value, json};

use crate::error::{Error, Result};

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Plain {
    name: String,
    /// PORT[:TARGET], several separated by commas
    #[arg(long, value_delimiter = ',')]
    tcp: Vec<String>,
}

impl Plain {
    pub(super) fn build(&self, kind: &str) -> Result<Value> {
        let labels = json!({"app": self.name});
        let mut spec = json!({"type": kind, "selector": labels});
        let ports = self.tcp.iter().map(|text| port(text)).collect::<Result<Vec<_>>>()?;
        if ports.is_empty() && kind != "ExternalName" {
            return Err(Error::from("at least one tcp port specifier must be provided"));
        }
        if !ports.is_empty() {
            spec["ports"] = Value::Array(ports.into());
        }
        Ok(json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": self.name, "labels": labels}, "spec": spec,
        }))
    }
}

fn port(text: &str) -> Result<Value> {
    let (port, target) = text.split_once(':').unwrap_or((text, text));
    let number: u16 = port.parse().map_err(|_| format!("invalid port {port:?} in {text:?}"))?;
    let target = target.parse::<u16>().map_or_else(|_| Value::from(target), Value::from);
    Ok(
        json!({"name": text.replace(':', "-"), "port": number, "protocol": "TCP", "targetPort": target}),
    )
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct ClusterIp {
    #[command(flatten)]
    plain: Plain,
    /// The address, or None for a service without one
    #[arg(long)]
    clusterip: Option<String>,
}

impl ClusterIp {
    pub(super) fn build(&self) -> Result<Value> {
        if self.clusterip.as_deref() == Some("None") && self.plain.tcp.is_empty() {
            let labels = json!({"app": self.plain.name});
            return Ok(json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": self.plain.name, "labels": labels},
                "spec": {"type": "ClusterIP", "clusterIP": "None", "selector": labels},
            }));
        }
        let mut service = self.plain.build("ClusterIP")?;
        if let Some(address) = &self.clusterip {
            service["spec"]["clusterIP"] = address.as_str().into();
        }
        Ok(service)
    }
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct ExternalName {
    #[command(flatten)]
    plain: Plain,
    /// The other name
    #[arg(long, required = true)]
    external_name: String,
}

impl ExternalName {
    pub(super) fn build(&self) -> Result<Value> {
        let mut service = self.plain.build("ExternalName")?;
        service["spec"]["externalName"] = self.external_name.as_str().into();
        Ok(service)
    }
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct NodePort {
    #[command(flatten)]
    plain: Plain,
    /// The port of the nodes; one is chosen unless given
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    node_port: u16,
}

impl NodePort {
    pub(super) fn build(&self) -> Result<Value> {
        let mut service = self.plain.build("NodePort")?;
        if self.node_port > 0 {
            service["spec"]["ports"][0]["nodePort"] = self.node_port.into();
        }
        Ok(service)
    }
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Ingress {
    name: String,
    /// HOST/PATH[*]=SERVICE:PORT[,tls[=SECRET]]
    #[arg(long)]
    rule: Vec<String>,
    /// The class of the ingress
    #[arg(long)]
    class: Option<String>,
    /// SERVICE:PORT for everything else
    #[arg(long)]
    default_backend: Option<String>,
    /// KEY=VALUE
    #[arg(long)]
    annotation: Vec<String>,
}

impl Ingress {
    pub(super) fn build(&self) -> Result<Value> {
        if self.rule.is_empty() && self.default_backend.is_none() {
            return Err(Error::from(
                "not enough information provided: every ingress has to either specify a default-backend (which catches all traffic) or a list of rules",
            ));
        }
        let (mut rules, mut tls): (Vec<Value>, Vec<Value>) = (Vec::new(), Vec::new());
        for text in &self.rule {
            let (rule, secret) =
                text.split_once(",tls").map_or((text.as_str(), None), |(r, s)| (r, Some(s)));
            let (address, target) = rule
                .split_once('=')
                .ok_or_else(|| format!("rule {text} is invalid: no service given"))?;
            let (host, path) = address.split_once('/').unwrap_or((address, ""));
            let (path, kind) =
                path.strip_suffix('*').map_or((path, "Exact"), |path| (path, "Prefix"));
            let path =
                json!({"path": format!("/{path}"), "pathType": kind, "backend": backend(target)?});
            match rules.iter_mut().find(|rule| rule["host"].as_str().unwrap_or_default() == host) {
                Some(rule) => {
                    if let Some(paths) = rule["http"]["paths"].as_array_mut() {
                        paths.push(path);
                    }
                }
                None => rules.push(json!({"host": host, "http": {"paths": [path]}})),
            }
            if let Some(secret) = secret {
                let mut entry = json!({"hosts": [host]});
                if let Some(name) = secret.strip_prefix('=') {
                    entry["secretName"] = name.into();
                }
                tls.push(entry);
            }
        }
        let mut spec = json!({});
        for (field, list) in [("rules", rules), ("tls", tls)] {
            if !list.is_empty() {
                spec[field] = Value::Array(list.into());
            }
        }
        if let Some(class) = &self.class {
            spec["ingressClassName"] = class.as_str().into();
        }
        if let Some(target) = &self.default_backend {
            spec["defaultBackend"] = backend(target)?;
        }
        let mut metadata = json!({"name": self.name});
        if !self.annotation.is_empty() {
            let pairs: Map =
                self.annotation.iter().filter_map(|pair| pair.split_once('=')).collect();
            metadata["annotations"] = Value::Object(pairs);
        }
        Ok(
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": metadata, "spec": spec}),
        )
    }
}

fn backend(text: &str) -> Result<Value> {
    let (service, port) =
        text.split_once(':').ok_or_else(|| format!("{text:?} is not service:port"))?;
    let port = port
        .parse::<u16>()
        .map_or_else(|_| json!({"name": port}), |number| json!({"number": number}));
    Ok(json!({"service": {"name": service, "port": port}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_may_have_targets() {
        assert_eq!(
            port("80:http").unwrap(),
            json!({"name": "80-http", "port": 80, "protocol": "TCP", "targetPort": "http"})
        );
        assert!(port("x").is_err());
    }

    #[test]
    fn rules_of_one_host_share_an_entry() {
        let ingress = Ingress {
            name: "i".into(),
            rule: vec!["a.com/x*=web:80,tls=s".into(), "a.com/y=web:http".into()],
            class: None,
            default_backend: None,
            annotation: vec![],
        };
        let spec = &ingress.build().unwrap()["spec"];
        assert_eq!(spec["rules"].as_array().map(|it| it.len()), Some(1));
        assert_eq!(spec["rules"][0]["http"]["paths"][0]["pathType"], "Prefix");
        assert_eq!(spec["tls"][0], json!({"hosts": ["a.com"], "secretName": "s"}));
    }
}
