//! `annotate`: changes annotations of objects.

use crate::context::Context;
use crate::error::Result;
use crate::mark::{self, Words};

pub(crate) use crate::mark::Args;

pub(crate) const EXAMPLES: &str = "  # Note something about a deployment
  karmadactl annotate deployment nginx description='my frontend'

  # Remove the note
  karmadactl annotate deployment nginx description-
";

const WORDS: Words = Words {
    field: "annotations",
    command: "annotate",
    done: "annotated",
    removed: "annotated",
    unchanged: "annotated",
};

pub(crate) async fn run(ctx: &Context, args: Args) -> Result<()> {
    mark::run(ctx, args, &WORDS).await
}
