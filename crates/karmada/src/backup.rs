//! `karmada backup`, `karmada restore` and `karmada move`: everything a control plane keeps, as one
//! file or in another store.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use karmada_store::{DirLock, Embedded, Etcd, RangeQuery, Snapshot, Store, raise_revision};

use crate::control::{self, Order};
use crate::etcd::{EtcdArgs, keys};
use crate::up::default_data_dir;

/// How far versions are raised when an old state is brought back: those that were given out since
/// must not be given out again for other content.
const LEAP: i64 = 1_000_000;

/// Written and deleted to raise the revision of an etcd.
const SCRATCH: &str = "/registry/karmada.io/revision";

/// Who leads and who is alive is a matter of now.
const LEASES: &str = "/registry/leases/";

/// Which control plane is meant.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Place {
    /// The data directory of the control plane, whether it runs or not
    /// [default: karmada in the user's data directory]
    #[arg(long)]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    etcd: EtcdArgs,
}

impl Place {
    fn data_dir(&self) -> anyhow::Result<PathBuf> {
        let named = self.data_dir.clone().or_else(default_data_dir);
        named.context("find the user's data directory; give --data-dir")
    }

    async fn etcd(&self) -> anyhow::Result<Option<Etcd>> {
        match self.etcd.options() {
            Some(options) => Ok(Some(Etcd::open(&options).await?)),
            None => Ok(None),
        }
    }
}

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct BackupArgs {
    /// The file to write; one that is there is replaced
    file: PathBuf,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct RestoreArgs {
    /// The file that `karmada backup` has written
    file: PathBuf,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct MoveArgs {
    /// Where objects are to be from now on
    #[arg(long, value_enum)]
    to: Target,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Target {
    /// In the etcd that --etcd-servers names
    Etcd,
    /// In the data directory
    Embedded,
}

pub(crate) async fn backup(args: BackupArgs) -> anyhow::Result<()> {
    let file = std::path::absolute(&args.file)?;
    let done = match args.place.etcd().await? {
        Some(etcd) => take(&etcd, None, &file).await?,
        None => {
            let data_dir = args.place.data_dir()?;
            match control::order(&data_dir, &Order::Backup { file: file.clone() }).await? {
                Some(done) => done,
                None => {
                    let _lock = hold(&data_dir)?;
                    take(&Embedded::open(store_of(&data_dir)?)?, Some(&data_dir), &file).await?
                }
            }
        }
    };
    crate::tell(format_args!("{done}"));
    Ok(())
}

pub(crate) async fn restore(args: RestoreArgs) -> anyhow::Result<()> {
    let file = std::path::absolute(&args.file)?;
    let snapshot = Snapshot::read(&file)?;
    let done = match args.place.etcd().await? {
        Some(etcd) => restore_to_etcd(&etcd, snapshot).await?,
        None => {
            let data_dir = args.place.data_dir()?;
            match control::order(&data_dir, &Order::Restore { file }).await? {
                Some(done) => done,
                None => restore_to_dir(snapshot, &data_dir)?,
            }
        }
    };
    crate::tell(format_args!("{done}"));
    Ok(())
}

pub(crate) async fn move_store(args: MoveArgs) -> anyhow::Result<()> {
    let data_dir = args.place.data_dir()?;
    let etcd = args.place.etcd().await?.context("name the etcd with --etcd-servers")?;
    let _lock = hold(&data_dir)?;
    let done = match args.to {
        Target::Etcd => to_etcd(&data_dir, &etcd).await?,
        Target::Embedded => to_embedded(&data_dir, &etcd).await?,
    };
    crate::tell(format_args!("{done}"));
    Ok(())
}

/// Writes everything a store holds at present, and the keys of the control plane, into a file.
pub(crate) async fn take(
    store: &dyn Store,
    data_dir: Option<&Path>,
    file: &Path,
) -> anyhow::Result<String> {
    let mut snapshot = Snapshot::of(store).await?;
    let (objects, revision) = (snapshot.items.len(), snapshot.revision);
    if let Some(data_dir) = data_dir {
        snapshot.add(keys::KEY, keys::pack(&data_dir.join("pki"))?.into());
    }
    let target = file.to_owned();
    tokio::task::spawn_blocking(move || snapshot.write(&target)).await??;
    Ok(format!("{objects} objects as of revision {revision} are in {}", file.display()))
}

/// Makes a store that may be in use hold what a snapshot holds. Keys stay: certificates and tokens
/// that were handed out go on working.
pub(crate) async fn bring_back(store: &dyn Store, snapshot: &Snapshot) -> anyhow::Result<String> {
    let applied = snapshot.apply(store, &[keys::KEY, LEASES]).await?;
    let revision = store.current().await?;
    Ok(format!(
        "{} objects written and {} deleted; the store is at revision {revision}",
        applied.written, applied.deleted
    ))
}

async fn restore_to_etcd(etcd: &Etcd, snapshot: Snapshot) -> anyhow::Result<String> {
    if is_empty(etcd).await? {
        return fill_etcd(etcd, snapshot).await;
    }
    bring_back(etcd, &snapshot).await
}

fn restore_to_dir(mut snapshot: Snapshot, data_dir: &Path) -> anyhow::Result<String> {
    std::fs::create_dir_all(data_dir).with_context(|| format!("create {}", data_dir.display()))?;
    let _lock = hold(data_dir)?;
    let store = data_dir.join("store");
    if store.exists() {
        bail!(
            "there is a store in {}; start the control plane and restore while it runs, or move \
             that directory away",
            store.display()
        );
    }
    if let Some(packed) = snapshot.take(keys::KEY) {
        keys::unpack(&packed.value.to_bytes(), &data_dir.join("pki"))?;
    }
    let revision = snapshot.revision + LEAP;
    snapshot.make_store(&store, revision)?;
    Ok(format!("{} objects are in {}", snapshot.items.len(), store.display()))
}

async fn to_etcd(data_dir: &Path, etcd: &Etcd) -> anyhow::Result<String> {
    if !is_empty(etcd).await? {
        bail!("something is under this prefix of etcd already; choose another --etcd-prefix");
    }
    let dir = store_of(data_dir)?;
    let embedded = Embedded::open(&dir)?;
    let mut snapshot = Snapshot::of(&embedded).await?;
    snapshot.add(keys::KEY, keys::pack(&data_dir.join("pki"))?.into());
    drop(embedded);
    let done = fill_etcd(etcd, snapshot).await?;
    // Found there by a later start without etcd, it would be an old state.
    let kept = data_dir.join("store.moved-to-etcd");
    std::fs::rename(&dir, &kept).with_context(|| format!("rename {}", dir.display()))?;
    Ok(format!("{done}; what was here is kept in {}", kept.display()))
}

async fn to_embedded(data_dir: &Path, etcd: &Etcd) -> anyhow::Result<String> {
    let store = data_dir.join("store");
    if store.exists() {
        bail!("there is a store in {}; move it away first", store.display());
    }
    let mut snapshot = Snapshot::of(etcd).await?;
    let packed = snapshot.take(keys::KEY).context("there is no control plane in this etcd")?;
    keys::unpack(&packed.value.to_bytes(), &data_dir.join("pki"))?;
    let revision = snapshot.revision;
    snapshot.make_store(&store, revision)?;
    Ok(format!(
        "{} objects are in {} at revision {revision}; etcd is as it was",
        snapshot.items.len(),
        store.display()
    ))
}

/// Fills an etcd that has nothing under the prefix; versions read elsewhere are not given out again.
async fn fill_etcd(etcd: &Etcd, snapshot: Snapshot) -> anyhow::Result<String> {
    raise_revision(etcd, SCRATCH, snapshot.revision).await?;
    let applied = snapshot.apply(etcd, &[]).await?;
    let revision = etcd.current().await?;
    etcd.compact(revision).await?;
    Ok(format!("{} objects are in etcd, which is at revision {revision}", applied.written))
}

async fn is_empty(etcd: &Etcd) -> anyhow::Result<bool> {
    Ok(etcd.range(RangeQuery::prefix("").limit(1)).await?.count == 0)
}

fn hold(data_dir: &Path) -> anyhow::Result<DirLock> {
    std::fs::create_dir_all(data_dir).with_context(|| format!("create {}", data_dir.display()))?;
    Ok(DirLock::acquire(data_dir)?)
}

/// Where the embedded store of a data directory is; it is not made by asking.
fn store_of(data_dir: &Path) -> anyhow::Result<PathBuf> {
    let store = data_dir.join("store");
    if !store.is_dir() {
        bail!(
            "there is no store in {}; name the data directory with --data-dir, or etcd with --etcd-servers",
            data_dir.display()
        );
    }
    Ok(store)
}
