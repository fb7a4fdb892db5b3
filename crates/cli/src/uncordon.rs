//! `uncordon`: lets new workloads come to a cluster again.

use crate::context::Context;
use crate::cordon::{Wish, apply};
use crate::error::Result;

pub(crate) use crate::cordon::Args;

pub(crate) const EXAMPLES: &str = "  # Let new workloads come to member1 again
  karmadactl uncordon member1
";

pub(crate) async fn run(ctx: &Context, args: Args) -> Result<()> {
    apply(ctx, args, Wish::Uncordon).await
}
