//! Registers a cluster in Pull mode, as its agent does whenever it starts. What is so already is not
//! written; a token that the member no longer issues is replaced.

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::{Client, ListOptions};

use crate::member::{self, Reported};
use crate::{
    Access, Error, Join, attempting, check_name, cluster_id, clusters, credentials, objects,
};

/// How often the Cluster is written anew when somebody else was faster.
const ATTEMPTS: usize = 5;

/// Registers the cluster that `member` administers; returns its Cluster.
pub async fn register(
    plane: &Client,
    member: &Client,
    access: &Access,
    join: &Join,
    reported: Reported,
) -> Result<Value, Error> {
    check_name(&join.name)?;
    let id = cluster_id(member).await?;
    let listed = plane.api(&clusters()).list_all(&ListOptions::default()).await;
    let listed = listed.map_err(attempting("list clusters"))?;
    let listed: Vec<Value> = listed.items.iter().map(|cluster| cluster.value()).collect();
    let known = own_among(&listed, &join.name, &id)?;
    let issued = member::prepare(member, join, reported, &|_| {}).await?;
    let secrets = credentials::store(plane, join, &issued, known.map(|known| known.uid())).await?;
    let cluster = keep_cluster(plane, access, join, &id, &secrets).await?;
    for secret in secrets.iter() {
        credentials::adopt(plane, secret, &cluster).await?;
    }
    Ok(cluster)
}

/// The Cluster of an earlier start. Fails if the name or the cluster is taken.
fn own_among<'a>(listed: &'a [Value], name: &str, id: &str) -> Result<Option<&'a Value>, Error> {
    let mut own = None;
    for cluster in listed {
        let known = cluster.str_at(&["spec", "id"]).unwrap_or_default();
        match (cluster.name() == name, known == id) {
            (true, true) if cluster.is_being_deleted() => {
                return Err(Error::Leaving(name.to_owned()));
            }
            (true, true) => own = Some(cluster),
            (true, false) => {
                return Err(Error::NameTaken { name: name.to_owned(), id: known.to_owned() });
            }
            (false, true) => {
                let (id, name) = (id.to_owned(), cluster.name().to_owned());
                return Err(Error::RegisteredAs { id, name });
            }
            (false, false) => {}
        }
    }
    Ok(own)
}

/// Makes the Cluster, or brings what the agent says into the one there is.
async fn keep_cluster(
    plane: &Client,
    access: &Access,
    join: &Join,
    id: &str,
    secrets: &credentials::Kept,
) -> Result<Value, Error> {
    let api = plane.api(&clusters());
    let name = join.name.as_str();
    let mut attempts = 0;
    loop {
        attempts += 1;
        let found = api.find(name).await;
        let found = found.map_err(attempting(format!("get the cluster {name}")))?;
        let mut wanted = found.clone().unwrap_or_else(|| objects::cluster(name));
        objects::describe(&mut wanted, access, join, secrets);
        wanted["spec"]["syncMode"] = "Pull".into();
        wanted["spec"]["id"] = id.into();
        let written = match found {
            None => api.create(&wanted).await,
            Some(found) if found["spec"] == wanted["spec"] => return Ok(found),
            Some(_) => api.update(&wanted).await,
        };
        match written {
            Err(error)
                if attempts < ATTEMPTS && (error.is_conflict() || error.is_already_exists()) => {}
            written => return written.map_err(attempting(format!("write the cluster {name}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn a_name_and_a_cluster_are_registered_once() {
        let cluster = |name: &str, id: &str| json!({"metadata": {"name": name, "uid": format!("uid-{name}")}, "spec": {"id": id}});
        let mut leaving = cluster("edge", "1");
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let taken = "the name edge is taken by another cluster, whose id is 2; give this one another --cluster-name";
        let known = "this cluster, whose id is 1, is registered as other already; start the agent with --cluster-name=other, or unjoin other first";
        let cases = [
            (vec![], Ok(None)),
            (vec![cluster("other", "2")], Ok(None)),
            (vec![cluster("other", "2"), cluster("edge", "1")], Ok(Some("uid-edge"))),
            (vec![cluster("edge", "2")], Err(taken)),
            (
                vec![cluster("edge", "")],
                Err(
                    "the name edge is taken by another cluster, whose id is ; give this one another --cluster-name",
                ),
            ),
            (vec![cluster("other", "1")], Err(known)),
            (
                vec![leaving],
                Err(
                    "the cluster edge is being removed from the control plane; start the agent again when it is gone",
                ),
            ),
        ];
        for (listed, expected) in cases {
            let found = own_among(&listed, "edge", "1").map_err(|error| error.to_string());
            let found = found.map(|found| found.map(|found| found.uid()));
            assert_eq!(found, expected.map_err(str::to_owned));
        }
    }
}
