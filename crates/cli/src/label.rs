//! `label`: changes labels of objects.

use crate::context::Context;
use crate::error::Result;
use crate::mark::{self, Words};

pub(crate) use crate::mark::Args;

pub(crate) const EXAMPLES: &str = "  # Mark a cluster, for policies that select by label
  karmadactl label cluster member1 env=prod

  # Remove the mark
  karmadactl label cluster member1 env-
";

pub(crate) const WORDS: Words = Words {
    field: "labels",
    command: "label",
    done: "labeled",
    removed: "unlabeled",
    unchanged: "not labeled",
};

pub(crate) async fn run(ctx: &Context, args: Args) -> Result<()> {
    mark::run(ctx, args, &WORDS).await
}
